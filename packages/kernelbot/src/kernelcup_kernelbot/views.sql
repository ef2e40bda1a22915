-- What reads KernelBot's tables finds them here, over ours. Words in braces are filled in by views.py.
CREATE SCHEMA {schema};
COMMENT ON SCHEMA {schema} IS 'views of KernelCup';

CREATE VIEW {schema}.user_info AS
SELECT DISTINCT ON (u.id)
    coalesce(i.subject, 'kernelcup-' || u.id) AS id,
    coalesce(nullif(u.shown_name, ''), u.name) AS user_name,
    NULL::text AS cli_id,
    EXISTS (SELECT FROM public.tokens t WHERE t.user_id = u.id AND t.kind = 'popcorn' AND t.revoked_at IS NULL) AS cli_valid,
    i.provider AS cli_auth_provider,
    NULL::text AS web_auth_id,
    u.created_at AT TIME ZONE 'UTC' AS created_at,
    u.banned_at IS NOT NULL AS is_banned
FROM public.users u LEFT JOIN public.identities i ON i.user_id = u.id
ORDER BY u.id, i.provider;

CREATE VIEW {schema}.leaderboard AS
SELECT
    b.id, b.name, coalesce(b.deadline, 'infinity') AS deadline,
    jsonb_build_object(
        'lang', v.body -> 'lang',
        'files', (v.body -> 'sources')::jsonb || jsonb_build_object(v.body ->> 'submission_name', '@SUBMISSION@'),
        'config', CASE WHEN v.body ->> 'cuda' IS NULL THEN jsonb_build_object('main', v.body -> 'main')
                       ELSE (v.body -> 'cuda')::jsonb END,
        'libraries', v.body -> 'libraries', 'tests', v.body -> 'tests', 'benchmarks', v.body -> 'benchmarks',
        'test_timeout', v.body -> 'limits' -> 'test_s', 'benchmark_timeout', v.body -> 'limits' -> 'benchmark_s',
        'ranked_timeout', v.body -> 'limits' -> 'ranked_s', 'ranking_by', v.body -> 'ranking_by',
        'seed', v.body -> 'seed', 'multi_gpu', v.body -> 'multi_gpu') AS task,
    coalesce((SELECT CASE WHEN i.subject ~ '^[0-9]{{1,18}}$' THEN i.subject::bigint END FROM public.identities i
              WHERE i.user_id = b.creator_id ORDER BY i.provider LIMIT 1), 0) AS creator_id,
    coalesce(nullif(b.discord_thread, '')::bigint, -1) AS forum_id,
    NULL::bigint AS secret_seed,
    v.body ->> 'description' AS description,
    b.visibility
FROM public.leaderboards b JOIN public.task_versions v ON v.hash = b.task_hash;

CREATE VIEW {schema}.gpu_type AS
SELECT leaderboard_id, device AS gpu_type FROM public.leaderboard_devices;

CREATE VIEW {schema}.code_files AS
SELECT
    ('x' || substr(c.hash, 1, 15))::bit(60)::bigint AS id,
    coalesce(
        (SELECT decode(f.value, 'base64') FROM json_each_text(c.files) f WHERE f.key LIKE '%.base64'),
        convert_to(coalesce(c.files ->> '', (SELECT string_agg('# ---- ' || f.key || E'\n' || f.value, E'\n')
                                             FROM json_each_text(c.files) f)), 'UTF8')) AS code,
    c.hash
FROM public.code c;

CREATE VIEW {schema}.submission AS
SELECT
    s.id, s.leaderboard_id,
    coalesce(i.subject, 'kernelcup-' || s.user_id) AS user_id,
    ('x' || substr(s.code_hash, 1, 15))::bit(60)::bigint AS code_id,
    s.file_name, s.created_at AS submission_time,
    NOT EXISTS (SELECT FROM public.jobs j WHERE j.submission_id = s.id
                AND j.state IN ('queued', 'running', 'halted')) AS done,
    CASE WHEN e.submission_id IS NOT NULL AND NOT EXISTS (
             SELECT FROM public.jobs j WHERE j.submission_id = s.id AND j.state <> 'rejected')
         THEN 'hacked' ELSE 'active' END AS status,
    CASE s.mode WHEN 'leaderboard' THEN 'leaderboard' ELSE 'test' END AS mode_category
FROM public.submissions s
-- Joins, so that a ranking looks them up at once, and a query that does not ask for the user not at all.
LEFT JOIN (SELECT DISTINCT ON (user_id) user_id, subject FROM public.identities ORDER BY user_id, provider) i
    ON i.user_id = s.user_id
-- What did not pass its secret runs at KernelBot was not expelled: only its score is gone.
LEFT JOIN (SELECT DISTINCT submission_id FROM public.jobs WHERE state = 'rejected' AND reason NOT IN ({unranked})) e
    ON e.submission_id = s.id
WHERE s.client NOT IN ('compare', 'final');

CREATE VIEW {schema}.submission_job_status AS
SELECT
    min(j.id) AS id, j.submission_id,
    CASE WHEN bool_or(j.state = 'running') THEN 'running'
         WHEN bool_or(j.state IN ('queued', 'halted')) THEN 'pending'
         WHEN bool_and(r.verdict = 'accepted') THEN 'succeeded'
         WHEN bool_or(r.verdict = 'time_limit_exceeded') THEN 'timed_out'
         ELSE 'failed' END AS status,
    string_agg(nullif(r.report ->> 'message', ''), E'\n') AS error,
    min(j.created_at) AS created_at, max(coalesce(j.finished_at, j.started_at)) AS last_heartbeat
FROM public.jobs j LEFT JOIN public.runs r ON r.job_id = j.id AND r.counted
GROUP BY j.submission_id;

-- Functions, so that nothing of a report is read but what is asked for.
CREATE FUNCTION {schema}.stage(report json, name text) RETURNS json LANGUAGE sql STABLE AS $$
    SELECT body FROM json_array_elements(report -> 'stages') AS body WHERE body ->> 'name' = name LIMIT 1
$$;

CREATE FUNCTION {schema}.result(stage json, family text) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT coalesce(jsonb_object_agg(family || '.' || (c.number - 1) || '.' || line.key, line.value), '{{}}')
        || jsonb_build_object(
            family || '-count', coalesce(json_array_length(stage -> 'cases'), 0)::text,
            'check', CASE stage ->> 'verdict' WHEN 'accepted' THEN 'pass' ELSE 'fail' END)
    FROM json_array_elements(stage -> 'cases') WITH ORDINALITY AS c (body, number)
    CROSS JOIN LATERAL (VALUES
        ('spec', (SELECT string_agg(p.key || ': ' || p.value, '; ') FROM json_each_text(c.body -> 'parameters') p)),
        ('status', CASE c.body ->> 'verdict' WHEN 'accepted' THEN 'pass' ELSE 'fail' END),
        (CASE c.body ->> 'verdict' WHEN 'accepted' THEN 'message' ELSE 'error' END, nullif(c.body ->> 'message', '')),
        ('mean', coalesce(c.body -> 'timing' ->> 'reported_ns', c.body -> 'timing' -> 'audit' ->> 'score_ns')),
        ('std', c.body -> 'timing' -> 'reported' ->> 'std'), ('err', c.body -> 'timing' -> 'reported' ->> 'err'),
        ('best', c.body -> 'timing' -> 'reported' ->> 'best'), ('worst', c.body -> 'timing' -> 'reported' ->> 'worst'),
        ('runs', c.body -> 'timing' -> 'reported' ->> 'runs')
    ) AS line (key, value)
    WHERE line.value IS NOT NULL AND c.body ->> 'hidden' IS DISTINCT FROM 'true'
$$;

CREATE VIEW {schema}.runs AS
{runs};

-- The site's sign-in writes a user with the secret that it sends as X-Web-Auth-Id.
CREATE FUNCTION {schema}.sign_in() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    its_provider text := CASE WHEN NEW.id !~ '^[0-9]+$' THEN 'kernelbot' WHEN length(NEW.id) >= 17 THEN 'discord' ELSE 'github' END;
    its_user integer;
    stem text := left(trim(both '-' FROM regexp_replace(coalesce(NEW.user_name, ''), '[^A-Za-z0-9_.]+', '-', 'g')), 50);
    name text;
    number integer := 1;
BEGIN
    SELECT user_id INTO its_user FROM public.identities
    WHERE subject = NEW.id AND provider IN ('discord', 'github', 'kernelbot') ORDER BY provider <> its_provider LIMIT 1;
    IF its_user IS NULL THEN
        IF stem !~ '[A-Za-z0-9]' OR lower(stem) IN ('nobody', 'operator', 'me') OR lower(stem) LIKE 'deleted%' THEN
            stem := its_provider || '-' || right(NEW.id, 4);
        END IF;
        LOOP
            name := stem || CASE number WHEN 1 THEN '' ELSE '-' || number END;
            INSERT INTO public.users (name, name_key, created_at) VALUES (name, lower(name), now())
            ON CONFLICT DO NOTHING RETURNING id INTO its_user;
            EXIT WHEN its_user IS NOT NULL;
            number := number + 1;
        END LOOP;
        INSERT INTO public.identities (provider, subject, user_id, login, created_at)
        VALUES (its_provider, NEW.id, its_user, coalesce(NEW.user_name, name), now());
    END IF;
    IF NEW.web_auth_id IS NOT NULL THEN
        UPDATE public.tokens SET revoked_at = now()
        WHERE user_id = its_user AND tokens.name = '{token}' AND revoked_at IS NULL
            AND hash <> encode(sha256(convert_to(NEW.web_auth_id, 'UTF8')), 'hex');
        INSERT INTO public.tokens (user_id, kind, name, hash, scopes, created_at)
        VALUES (its_user, 'api', '{token}', encode(sha256(convert_to(NEW.web_auth_id, 'UTF8')), 'hex'), '{scopes}', now())
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER sign_in INSTEAD OF INSERT OR UPDATE ON {schema}.user_info
FOR EACH ROW EXECUTE FUNCTION {schema}.sign_in();
