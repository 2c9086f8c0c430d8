// Package office reads the formats of Office: Word, PowerPoint, Excel.
package office
