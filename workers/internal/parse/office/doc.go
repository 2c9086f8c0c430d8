// Package office reads Office formats: Word, PowerPoint, Excel.
package office
