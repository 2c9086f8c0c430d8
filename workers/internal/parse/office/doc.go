// Package office reads Office formats: Word, PowerPoint and Excel.
package office
