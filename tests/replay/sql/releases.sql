-- Differences between the three releases; below each column its paragraph in internal-topics.md.
create or replace table releases as
select * from (values
    --  release  empty_is_null  leading_zeros  v2     drops_tasks  drops_deferred  needs_config  fencing  keys   removes  partitions
    --           1.2            1.2            2.4    3.3          3.3             2.3           2.3,2.5  2.6    6.1      6.2
    ('2.3',      false,         false,         false, false,       false,          false,        false,   false, false,   false),
    ('3.4',      true,          false,         false, true,        true,           false,        true,    true,  true,    false),
    ('3.9',      true,          true,          true,  true,        true,           true,         true,    true,  true,    true)
) as t(release, empty_is_null, leading_zeros, v2, drops_tasks, drops_deferred, needs_config, fencing, keys, removes, partitions);
