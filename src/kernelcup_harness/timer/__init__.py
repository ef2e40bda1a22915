"""The process that replays captured calls and times them."""
