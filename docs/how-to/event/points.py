"""Compute an event's sums of points again: python3 points.py https://SERVER EVENT"""

import json
import math
import sys
from itertools import groupby
from urllib.parse import quote
from urllib.request import urlopen


def get(*path, query=""):
    return json.load(urlopen("/".join([sys.argv[1], "api/v1", *map(quote, path)]) + query))


def standings(*path):
    """Return a ranking's places, with the official ranks if there was a final."""
    page = get(*path, query="?limit=200")
    final = {each["user"]: each["place"] for each in page["final"]["places"]} if page["final"] else {}
    places = page["items"]
    while page["next"] is not None:
        page = get(*path, query=f"?limit=200&after={page['next']}")
        places += page["items"]
    for place in places if final else ():
        place["rank"] = final.get(place["user"], max(place["rank"], len(final) + 1))
    return places


table, sums = get("events", sys.argv[2], "points"), {}
# Floors and baselines stand in the reports: the table has the ratio of each result to them.
ratios = {cell["submission"]: cell["ratio"] for row in table["rows"] for cell in row["cells"] if cell}
for column in table["columns"]:
    places, mine = standings("leaderboards", column["leaderboard"], "standings", column["device"]), {}
    for _, found in groupby(places, key=lambda place: place["host_class"]):
        ranking, worth, best = list(found), {}, 0.0
        for place in sorted(ranking, key=lambda place: -place["rank"]):
            value = table["full_points"] * (ratios[place["submission"]] or 0.0)
            if table["points_by"] == "place":
                value = dict(enumerate(table["place_points"], 1)).get(place["rank"], 0.0)
            elif table["points_by"] == "leader" and place["ranked_by"] != "correctness":
                fastest = min(each["score_s"] for each in ranking)
                value = table["full_points"] * (fastest / place["score_s"])
            worth[place["rank"]] = best = max(best, value)
        for place in ranking:
            value = round(column["weight"] * worth[place["rank"]], 3)
            mine[place["user"]] = max(value, mine.get(place["user"], 0.0))
    for user, value in mine.items():
        sums[user] = [*sums.get(user, []), value]
totals = {user: round(math.fsum(values), 3) for user, values in sums.items()}
print(json.dumps(totals, indent=1))
