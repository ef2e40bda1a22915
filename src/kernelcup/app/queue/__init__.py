"""Jobs on their way: claimed, judged by launchers, finished, tried again."""
