//go:build race

package redisstore

// raceDetector makes everything ten times slower.
const raceDetector = true
