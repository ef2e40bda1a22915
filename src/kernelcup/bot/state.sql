-- The tables of the bot’s own file: kernelcup.bot.state.
CREATE TABLE IF NOT EXISTS followed (
    key TEXT PRIMARY KEY,
    user_id INTEGER NOT NULL,
    user_name TEXT NOT NULL,
    guild_id INTEGER NOT NULL,
    channel_id INTEGER NOT NULL,
    request TEXT NOT NULL,
    reply TEXT NOT NULL,
    began_at REAL NOT NULL,
    submission INTEGER,
    place TEXT,
    last_event INTEGER NOT NULL DEFAULT 0,
    progress TEXT NOT NULL DEFAULT '{}',
    ended_at REAL
);
CREATE TABLE IF NOT EXISTS said (
    key TEXT NOT NULL,
    part TEXT NOT NULL,
    message_id INTEGER NOT NULL,
    PRIMARY KEY (key, part)
);
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
