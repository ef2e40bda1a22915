"""What judging leads to: runs, standings, duels, reviews, what stands beside a time."""
