-- Returns a new id with a prefix, in the format of package id: 26 base-32 digits that encode a UUIDv7. The random bits
-- and the variant are those of a random UUID.
--
-- Ids of the same millisecond have no order. Called by the triggers that add notifications.
CREATE OR REPLACE FUNCTION new_type_id(prefix text) RETURNS text
  LANGUAGE plpgsql AS $$
DECLARE
  bits varbit := B'00' || trunc(extract(epoch FROM clock_timestamp()) * 1000)::bigint::bit(48) || B'0111'
    || substring(('x' || replace(gen_random_uuid()::text, '-', ''))::bit(128) FROM 53);
  made text := prefix || '_';
BEGIN
  FOR i IN 0 .. 25 LOOP
    made := made || substr('0123456789abcdefghjkmnpqrstvwxyz', substring(bits FROM i * 5 + 1 FOR 5)::bit(5)::int + 1, 1);
  END LOOP;
  RETURN made;
END $$;
