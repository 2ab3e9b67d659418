-- The config topic as three releases fold it. Records are not folded one after the other: a commit
-- applies the tasks of its batch, which begins after the previous commit or removal.
--
-- Reads: inside(cut, "offset", key, value), the visible records of each cut, in the order of their offsets; releases.
-- Makes: config_facts(cut, release, part, connector, item, value), one row for each row of a table of the state.

create or replace temp table texts as
select value, read_text(try(decode(value))) as told
from (select distinct value from inside where value is not null);

create or replace temp table records as
select i.cut, r.*, i."offset", key is null as no_key, try(decode(key)) as k,
    case told.fate when 'zeros' then leading_zeros when 'json' then true else i.value is null or empty_is_null end
        and coalesce(told.fate, '') <> 'bad' as decodable,
    told.text::json as j,
    case when key is not null and try(decode(key)) is null then 'not plain UTF-8' else told.why end as why
from inside i left join texts t on i.value = t.value cross join releases r;

-- Owner and content of each record; a value of null and the text null are the same.
create or replace temp table spoken as
with kinds as (
    select *,
        regexp_extract(k, '(?s)^(target-state-|connector-|task-|commit-|tasks-fencing-)(.*)$', ['kind', 'rest']) as key_parts,
        regexp_extract(rtrim(k, '-'), '(?s)^task-(.*)-([^-]*)$', ['name', 'id']) as task,
        j is null or json_type(j) = 'NULL' as empty,
        coalesce(json_type(j) = 'OBJECT', false) as is_map,
        j->'properties' as properties
    from records
    where decodable and not no_key
)
select cut, release, "offset", kind,
    case kind when 'task-' then task.name else key_parts.rest end as name,
    v2, drops_tasks, drops_deferred, needs_config, fencing, keys, empty, is_map, j,
    case when is_map and json_type(properties) = 'OBJECT' then properties::varchar end as properties,
    case when kind = 'task-' and regexp_full_match(task.id, '\+?[0-9]{1,18}') and try_cast(task.id as bigint) < 2147483648
        then try_cast(task.id as integer) end as task,
    kind = 'task-' and not regexp_full_match(task.id, '[ -~]*') as odd_task
from (select *, case when k = 'session-key' then k else key_parts.kind end as kind from kinds);

-- --- records that SQL cannot follow ----------------------------------------------------------------------------------------------

create or replace temp table unfollowed as
with reasons as (
    select cut, "offset", why from records
    union all
    select cut, "offset", case
            when odd_task then 'a task number in digits of another script'
            when has_twice(j) then 'a field twice'
            when odd_numbers(properties) or (is_map and regexp_matches(bare(j::varchar), '[0-9]{19}'))
                then 'a number that releases read differently' end
    from spoken
)
select cut, "offset", min(why) as why from reasons where why is not null group by all;

-- --- connectors, commits, and tasks that wait for a commit ----------------------------------------------------------------

create or replace temp table events as
with valid as (
    select *,
        kind = 'connector-' and (empty or properties is not null) as is_config,
        kind = 'task-' and task is not null and properties is not null as is_task,
        kind = 'commit-' as is_commit,
        case when kind = 'commit-' and is_map and is_integer(j->'tasks') then narrowed(j->'tasks') end as tasks
    from spoken
    where kind in ('connector-', 'task-', 'commit-')
), living as (
    select *,
        coalesce(last_value(case when is_config then not empty end ignore nulls) over before, false) as alive,
        last_value(case when is_config then coalesce(properties, '') end ignore nulls) over before as config
    from valid
    window before as (partition by cut, release, name order by "offset" rows between unbounded preceding and current row)
), ends as (
    select *,
        is_commit and needs_config and not alive as is_orphan,
        is_config and empty as is_removal
    from living
), effects as (
    select *,
        is_commit and not is_orphan and tasks is not null as is_effective,
        (is_removal and drops_tasks) or is_orphan as wipes,
        (is_removal and drops_deferred) or is_orphan as drops
    from ends
)
select *,
    coalesce(sum((is_effective or drops)::integer) over (so_far rows between unbounded preceding and 1 preceding), 0) as batch,
    sum(wipes::integer) over (so_far rows unbounded preceding) as life,
    sum(drops::integer) over (so_far rows unbounded preceding) as epoch,
    coalesce(max(case when is_task then "offset" end) over (so_far rows between unbounded preceding and 1 preceding), -1) as last_task
from effects
window so_far as (partition by cut, release, name order by "offset");

create or replace temp table ends as
select cut, release, name, max(life) as life, max(epoch) as epoch,
    sum((is_effective or drops)::integer) as batch
from events group by all;

create or replace temp table commits as
with sets as (
    select c.cut, c.release, c.name, c."offset", c.tasks, c.life, c.epoch, c.batch, c.config, c.fencing, c.needs_config,
        count(distinct case when t.task < c.tasks then t.task end) as held
    from events c left join events t
        on t.cut = c.cut and t.release = c.release and t.name = c.name and t.batch = c.batch and t.is_task
    where c.is_effective group by all
), dropped as (
    select c.cut, c.release, c.name, c."offset", coalesce(max(d."offset"), -1) as dropped_at
    from sets c left join events d
        on d.cut = c.cut and d.release = c.release and d.name = c.name and d.drops and d."offset" < c."offset"
    group by all
)
select s.*, held = greatest(tasks, 0) as complete,
    exists (
        from events t where t.is_task and t.cut = s.cut and t.release = s.release and t.name = s.name
            and t."offset" between dropped_at and s."offset"
    ) as had_deferred
from sets s join dropped using (cut, release, name, "offset");

create or replace temp table config_facts as
with configs as (
    select cut, release, name, arg_max({'p': properties}, "offset").p as properties from events where is_config group by all
), targets as (
    select cut, release, name, "offset", empty, case
            when v2 and json_type(j->'state.v2') = 'VARCHAR' then j->>'state.v2'
            when json_type(j->'state') = 'VARCHAR' then j->>'state' end as state, v2
    from spoken where kind = 'target-state-' and (empty or is_map)
), last_targets as (
    select cut, release, name, max("offset") as at, arg_max({'s': state}, "offset").s as state
    from targets
    where empty or state in ('STARTED', 'PAUSED') or (v2 and state = 'STOPPED')
    group by all
), begun as (
    select e.cut, e.release, e.name,
        bool_or(not empty and e."offset" > coalesce(t.at, -1)) or coalesce(arg_max(not empty, e."offset") filter (e."offset" < t.at), false) as configured
    from events e left join last_targets t using (cut, release, name)
    where is_config group by all
), wanted as (
    select cut, release, name, coalesce(state, case when configured then 'STARTED' end) as state
    from last_targets full join begun using (cut, release, name)
), fences as (
    select cut, release, name, "offset", narrowed(j->'task-count') as tasks
    from spoken where kind = 'tasks-fencing-' and fencing and is_map and is_integer(j->'task-count')
), session_keys as (
    select cut, release, "offset", j->>'key' as secret, j->>'algorithm' as algorithm, (j->'creation-timestamp')::varchar as created
    from spoken
    where kind = 'session-key' and keys and is_map
        and json_type(j->'key') = 'VARCHAR' and json_type(j->'algorithm') = 'VARCHAR' and is_integer(j->'creation-timestamp')
        and regexp_full_match(j->>'key', '([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?') and j->>'key' <> ''
)
select cut, release, 'connectors' as part, name as connector, '' as item, properties as value from configs where properties is not null
union all select cut, release, 'targets', name, '', to_json(state)::varchar from wanted where state is not null
union all select cut, release, 'task_counts', c.name, '', arg_max(tasks, "offset")::varchar
    from commits c join ends e using (cut, release, name) where c.life = e.life group by all
union all select cut, release, 'inconsistent', name, '', 'true' from commits group by all having not arg_max(complete, "offset")
union all select c.cut, c.release, 'tasks', c.name, t.task::varchar, arg_max(t.properties, t."offset")
    from commits c join ends e on e.cut = c.cut and e.release = c.release and e.name = c.name and c.life = e.life
        join events t on t.cut = c.cut and t.release = c.release and t.name = c.name and t.batch = c.batch
    where c.complete and t.is_task group by all
union all select t.cut, t.release, 'deferred', t.name, t.task::varchar, arg_max(t.properties, "offset")
    from events t join ends e on e.cut = t.cut and e.release = t.release and e.name = t.name and t.batch = e.batch
    where t.is_task group by all
union all select t.cut, t.release, 'deferred', t.name, '', 'true'
    from events t join ends e on e.cut = t.cut and e.release = t.release and e.name = t.name and t.epoch = e.epoch
    where t.is_task group by all
union all select cut, release, 'generations', name, '', (count(*) - 1)::varchar
    from commits where fencing and complete and had_deferred group by all
union all select cut, release, 'fenced_counts', name, '', arg_max(tasks, "offset")::varchar from fences group by all
union all select c.cut, c.release, 'pending_fencing', c.name, '', 'true'
    from (select cut, release, name, max("offset") as at from commits where fencing group by all) c
        left join (select cut, release, name, max("offset") as at from fences group by all) f using (cut, release, name)
    where c.at > coalesce(f.at, -1)
union all select c.cut, c.release, 'applied', c.name, '', arg_max(c.config, "offset")
    from commits c join ends e using (cut, release, name) where c.needs_config and c.complete and c.life = e.life group by all
union all select cut, release, 'session_key', '', '',
        to_json([arg_max(hex(from_base64(rpad(rtrim(secret, '='), ((len(rtrim(secret, '=')) + 3) // 4 * 4)::integer, '='))), "offset"),
            arg_max(algorithm, "offset"), arg_max(created, "offset")])::varchar
    from session_keys group by all
union all select cut, release, 'offset', '', '', (max("offset") + 1)::varchar from records where decodable group by all;
