// Package latency counts how long requests took, exactly enough for a 99th percentile.
//
// A Histogram's buckets are linear within each power of two: durations below 256 ns have a
// bucket each, longer ones a bucket 1/128 of their own size, so that every quantile is within
// 0.4 % of the true one whatever its size. Histograms of many connections are added up, and
// travel between processes as JSON.
package latency
