-- An offsets topic as three releases fold it. The last record of each raw key counts, in the one order
-- between partitions. From 3.5 on a source partition is listed unless its last record, in any spelling of its key, removes it.
--
-- Reads: offsets_inside(cut, topic, partition, "offset", time, key, value), the visible records of each cut; releases.
-- Makes: offset_facts(cut, release, part, connector, item, value).

create or replace temp table keys as
select key, told.fate, told.why, told.text::json as j
from (select key, read_text(try(decode(key))) as told from (select distinct key from offsets_inside where key is not null));

create or replace temp table subjects as
select key, j->>0 as connector, j->1 as partition,
    (select to_json(list([f.key, f.type, f.value::varchar] order by f.key))::varchar from json_each(j->1) f) as identity,
    case when odd_numbers(j->1) then 'a number that releases read differently'
        when has_twice(j->1) then 'a field twice'
        when exists (from json_each(j->1) f where f.type in ('OBJECT', 'ARRAY')) then 'a source partition with nested fields' end as odd
from keys
where fate in ('json', 'zeros') and json_type(j) = 'ARRAY' and json_array_length(j) = 2
    and json_type(j->0) = 'VARCHAR' and json_type(j->1) = 'OBJECT';

create or replace temp table unfollowed_offsets as
select distinct o.cut, o.topic, o.partition, o."offset", coalesce(k.why, s.odd) as why
from offsets_inside o join keys k using (key) left join subjects s using (key)
where k.why is not null or s.odd is not null;

create or replace temp table offset_facts as
with winners as (
    select cut, topic, key, arg_max({'value': value}, {'t': time, 'p': partition, 'o': "offset"}).value as value
    from offsets_inside group by all
), listed as (
    select cut, topic, connector, s.partition, identity,
        value is null as removed,
        row_number() over (partition by cut, topic, connector, identity order by time desc, o.partition desc, "offset" desc) as nth
    from offsets_inside o join subjects s using (key)
)
select cut, release, 'values of ' || topic as part, '' as connector, coalesce(hex(key), 'null') as item, coalesce(hex(value), 'null') as value
from winners cross join releases where value is not null or not removes
union all
select cut, release, 'hidden in ' || topic, connector, partition::varchar, 'true'
from listed cross join releases where partitions and removed and nth = 1;
