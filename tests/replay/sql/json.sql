-- JSON as a worker's parser (Jackson) reads it, as far as DuckDB's parser can follow.
--
-- DuckDB accepts NaN and trailing commas, which Jackson refuses. It refuses text behind a complete object, half surrogate pairs and
-- leading zeros, which Jackson accepts (leading zeros from 3.6 on). If SQL cannot determine what Jackson does, the answer is
-- `unknown`, and the caller leaves the record out.

-- Texts without their strings: brackets, commas, numbers and words remain.
create or replace macro bare(t) as regexp_replace(t, '"(?:[^"\\]|\\.)*"', '""', 'g');

-- Numbers like 007, and the same without the zeros; strings must not hold such digits.
create or replace macro has_zeros(t) as regexp_matches(bare(t), '(^|[\[:,\s])-?0[0-9]');
create or replace macro without_zeros(t) as regexp_replace(t, '(^|[\[:,\s])(-?)0+([0-9])', '\1\2\3', 'g');
create or replace macro zeros_in_strings(t) as
    len(regexp_extract_all(t, '(^|[\[:,\s])-?0[0-9]')) <> len(regexp_extract_all(bare(t), '(^|[\[:,\s])-?0[0-9]'));

-- Half of a surrogate pair as an escape; and text that resembles one, behind an escaped backslash.
create or replace macro has_half_pair(t) as regexp_matches(
    regexp_replace(t, '\\u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}', '', 'g'), '\\u[dD][89a-fA-F]');

-- The complete object or list at the beginning of a text; the rest is ignored.
create or replace macro beginning(t) as
    t[1:list_filter(range(1, len(t) + 1), lambda i: t[i] in ('}', ']') and json_valid(t[1:i]))[1]];

-- Fate of a text – json, zeros (valid if leading zeros are accepted), blank, bad or unknown, with the reason – and the text for DuckDB.
create or replace macro read_as(became, t) as {'fate': became, 'text': t, 'why': null};
create or replace macro unknown(why) as {'fate': 'unknown', 'text': null, 'why': why};

create or replace macro read_text(t) as case
    when t is null or contains(t, chr(0)) or starts_with(t, chr(65279)) then unknown('not plain UTF-8')
    when len(t) > 5000 then unknown('longer than 5,000 characters')
    when len(t) - len(translate(t, '[{', '')) > 500 then unknown('more than 500 brackets')
    when regexp_full_match(t, '[ \t\r\n]*') then read_as('blank', null)
    when has_half_pair(t) then unknown('half a surrogate pair')
    when json_valid(t) then case
        when regexp_matches(bare(t), ',\s*[}\]]|[nN][aA][nN]|[iI][nN][fF]') then read_as('bad', null)
        when regexp_matches(bare(t), '[eE][-+]?[0-9]{4}|[0-9]{400}') then unknown('a number that releases read differently')
        else read_as('json', t) end
    when not regexp_matches(t, '^[ \t\r\n]*[{\[]') then case
        when regexp_matches(t, '^[ \t\r\n]*(-?[0-9]|"|true|false|null)') then unknown('a word or number with text behind it')
        else read_as('bad', null) end
    when beginning(t) is not null and beginning(t) <> '' then case
        when regexp_matches(bare(beginning(t)), ',\s*[}\]]|[nN][aA][nN]|[iI][nN][fF]')
            then unknown('JSON that only DuckDB accepts, with text behind it')
        else read_as('json', beginning(t)) end
    when has_zeros(t) then case
        when json_valid(without_zeros(t)) and not zeros_in_strings(t) then read_as('zeros', without_zeros(t))
        else unknown('a number with leading zeros, in JSON from which SQL cannot remove them') end
    else read_as('bad', null) end;

-- A text with numbers that releases may read differently: fractions, and integers of 19 digits or more.
create or replace macro odd_numbers(j) as coalesce(regexp_matches(bare(j::varchar), '[0-9][.eE]|[0-9]{19}'), false);

create or replace macro has_twice(j) as
    json_type(j) = 'OBJECT' and len(json_keys(j)) <> len(list_distinct(json_keys(j)));

-- An integer, narrowed to 32 bits as Java's (int) does.
create or replace macro is_integer(j) as coalesce(json_type(j) in ('BIGINT', 'UBIGINT'), false);
create or replace macro narrowed(j) as
    (((try_cast(j::varchar as hugeint) + 2147483648) % 4294967296 + 4294967296) % 4294967296 - 2147483648)::integer;
