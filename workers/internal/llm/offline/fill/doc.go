// Package fill writes JSON that matches a schema from the words of a message and of tool results. It
// follows fixed rules, so the same input always has the same result:
//
//   - A value follows its name ("price: 30", "30 watts", "the order is A-17"), or has its form:
//     numbers, dates, e-mail addresses, URLs, values of an enumeration, names with capitals.
//   - The message comes before the data sent along and the tool results, and these before the texts of
//     sources.
//   - Each number, date and name is used once, in the order of the schema.
//   - A list takes all values of its form. A list of objects takes one object from each part of the
//     message, for example "2 lamps at 30 euros and 3 chairs at 45".
//   - A required field without a value becomes null if the schema permits that, otherwise its default
//     or an empty value. An optional one is omitted.
package fill
