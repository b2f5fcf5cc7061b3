//go:build race

package network

// raceEnabled is set where memory cannot be measured.
const raceEnabled = true
