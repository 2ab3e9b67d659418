-- Records of each cut, and the visible ones of them. A cut ends at given ends of each partition, or at a record in the one order:
-- the greatest timestamp of the partition so far, then the partition, then the offset, then the topic.
--
-- Reads: raw(cluster, topic, partition, "offset", timestamp, key, value, aborted);
--        points(cut, cluster, by_ends, topic, partition, "offset", exactly_once); ends_given(cut, topic, partition, "end").
-- Makes: inside, offsets_inside (see config.sql, offsets.sql).

create or replace temp table placed as
select *, max(timestamp) over (partition by cluster, topic, partition order by "offset") as time from raw;

create or replace temp table cut_ranks as
select p.cut, p.cluster, p.by_ends, p.exactly_once, r.time, r.partition, r."offset", r.topic
from points p left join placed r using (cluster, topic, partition, "offset");

create or replace temp table within as
select c.cut, c.exactly_once, r.*
from cut_ranks c join placed r using (cluster)
    left join ends_given e on e.cut = c.cut and e.topic = r.topic and e.partition = r.partition
where case when c.by_ends then r."offset" < e."end"
    else (r.time, r.partition, r."offset", r.topic) <= (c.time, c.partition, c."offset", c.topic) end;

-- Workers without exactly-once support read records of aborted transactions, except in connectors' own topics.
create or replace temp view inside as
select cut, "offset", key, value from within where topic = 'connect-configs' and not (aborted and exactly_once);

create or replace temp view offsets_inside as
select cut, topic, partition, "offset", time, key, value from within
where topic not in ('connect-configs', 'connect-status', 'connect-commands')
    and not (aborted and (exactly_once or topic <> 'connect-offsets'));
