-- Differences between the three releases.
create or replace table releases as
select * from (values
    --  release  empty_is_null  leading_zeros  v2     drops_tasks  drops_deferred  needs_config  fencing  keys   removes  partitions
    ('2.3',      false,         false,         false, false,       false,          false,        false,   false, false,   false),
    ('3.4',      true,          false,         false, true,        true,           false,        true,    true,  true,    false),
    ('3.9',      true,          true,          true,  true,        true,           true,         true,    true,  true,    true)
) as t(release, empty_is_null, leading_zeros, v2, drops_tasks, drops_deferred, needs_config, fencing, keys, removes, partitions);
