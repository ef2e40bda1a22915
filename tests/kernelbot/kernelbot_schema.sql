-- KernelBot's tables as the facts describe them (facts/kernelbot-database.md); the words are ours.
CREATE SCHEMA leaderboard;

CREATE TABLE leaderboard.user_info (
    id text PRIMARY KEY,
    user_name text,
    cli_id text,
    cli_valid boolean NOT NULL DEFAULT false,
    cli_auth_provider text,
    web_auth_id text,
    created_at timestamp DEFAULT now(),
    is_banned boolean NOT NULL DEFAULT false
);

CREATE TABLE leaderboard.leaderboard (
    id serial PRIMARY KEY,
    name text NOT NULL UNIQUE,
    deadline timestamptz NOT NULL,
    task jsonb NOT NULL,
    creator_id bigint NOT NULL DEFAULT 0,
    forum_id bigint NOT NULL DEFAULT -1,
    secret_seed bigint NOT NULL DEFAULT 1,
    description text NOT NULL DEFAULT '',
    visibility text NOT NULL DEFAULT 'public'
);

CREATE TABLE leaderboard.gpu_type (
    leaderboard_id integer NOT NULL REFERENCES leaderboard.leaderboard (id) ON DELETE CASCADE,
    gpu_type text NOT NULL,
    PRIMARY KEY (leaderboard_id, gpu_type)
);

CREATE TABLE leaderboard.templates (
    leaderboard_id integer NOT NULL REFERENCES leaderboard.leaderboard (id) ON DELETE CASCADE,
    lang text NOT NULL,
    code text NOT NULL,
    PRIMARY KEY (leaderboard_id, lang)
);

CREATE TABLE leaderboard.code_files (
    id serial PRIMARY KEY,
    code bytea NOT NULL,
    hash text GENERATED ALWAYS AS (encode(sha256(code), 'hex')) STORED NOT NULL UNIQUE
);

CREATE TABLE leaderboard.submission (
    id serial PRIMARY KEY,
    leaderboard_id integer NOT NULL REFERENCES leaderboard.leaderboard (id) ON DELETE CASCADE,
    user_id text NOT NULL REFERENCES leaderboard.user_info (id),
    code_id integer NOT NULL REFERENCES leaderboard.code_files (id),
    file_name text,
    submission_time timestamptz NOT NULL,
    done boolean NOT NULL DEFAULT false,
    status text NOT NULL DEFAULT 'active',
    mode_category text
);

CREATE TABLE leaderboard.runs (
    id serial PRIMARY KEY,
    submission_id integer NOT NULL REFERENCES leaderboard.submission (id) ON DELETE CASCADE,
    start_time timestamptz NOT NULL,
    end_time timestamptz NOT NULL,
    mode text NOT NULL,
    secret boolean NOT NULL DEFAULT false,
    runner text,
    score numeric,
    passed boolean,
    compilation jsonb,
    meta jsonb,
    result jsonb,
    system_info jsonb
);

CREATE TABLE leaderboard.submission_job_status (
    id serial PRIMARY KEY,
    submission_id integer NOT NULL UNIQUE REFERENCES leaderboard.submission (id) ON DELETE CASCADE,
    status text,
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_heartbeat timestamptz
);

CREATE TABLE leaderboard.leaderboard_invite (
    id serial PRIMARY KEY,
    code text NOT NULL UNIQUE,
    user_id text REFERENCES leaderboard.user_info (id),
    claimed_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE leaderboard.leaderboard_invite_scope (
    invite_id integer NOT NULL REFERENCES leaderboard.leaderboard_invite (id) ON DELETE CASCADE,
    leaderboard_id integer NOT NULL REFERENCES leaderboard.leaderboard (id) ON DELETE CASCADE,
    PRIMARY KEY (invite_id, leaderboard_id)
);

CREATE TABLE leaderboard.rate_limit (
    id serial PRIMARY KEY,
    leaderboard_id integer NOT NULL REFERENCES leaderboard.leaderboard (id) ON DELETE CASCADE,
    mode_category text NOT NULL,
    max_submissions_per_hour integer NOT NULL,
    UNIQUE (leaderboard_id, mode_category)
);

CREATE TABLE leaderboard.draft_code (
    id serial PRIMARY KEY,
    user_id text NOT NULL REFERENCES leaderboard.user_info (id),
    leaderboard_id integer NOT NULL REFERENCES leaderboard.leaderboard (id) ON DELETE CASCADE,
    code text NOT NULL
);
