"""Where the files of a task come from: folders, archives, the root of a problem set."""
