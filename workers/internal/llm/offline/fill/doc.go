// Package fill writes JSON that matches a schema. It takes the values from a message, its
// attachments and tool results, by fixed rules, so the same input always has the same result:
//
//   - A value in a text follows its name ("price: 30", "30 watts", "the order is A-17") or has a
//     known form. The forms are numbers, dates, e-mail addresses, URLs, values of an enumeration,
//     and names with capitals.
//   - The message takes precedence over the data sent with it and the tool results, and these over
//     the texts of sources. The texts in images come last.
//   - Each number, date and name is used once, in the order of the schema.
//   - A list gets all values of its form. A list of objects gets one object from each part of the
//     message, for example "2 lamps at 30 euros and 3 chairs at 45".
//   - If there is no value for a required field, the field becomes null if the schema allows that.
//     Otherwise it gets its default or an empty value. An optional field without a value is
//     omitted.
//   - If a schema refers to itself, at most two of its values are nested and filled from the texts.
//     The next one is the smallest valid value.
package fill
