// Package report turns the rounds of a measurement into medians, ratios and goals, and writes
// them as tables for people and as JSON for programs.
//
// A ratio is Parley's median over the floor's median of the same run; absolute figures say
// something about one machine only. The goals are those of docs' performance page for this
// measure.
package report
