package journey

import (
	"encoding/json"
	"os"
	"time"

	"osaurus-sandbox/config"
)

// Durations are how long steps took the last time: the estimate for the next.
type Durations map[Step]time.Duration

// maxDuration is longer than any step: a larger number in a file is damage.
const maxDuration = 24 * time.Hour

// Load reads what Save wrote. Without a file that can be read there are no
// estimates, which harms nobody.
func Load(path string) Durations {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var seconds map[Step]float64
	if json.Unmarshal(text, &seconds) != nil {
		return nil
	}
	d := Durations{}
	for _, s := range Steps() {
		if v := seconds[s]; v > 0 && v < maxDuration.Seconds() {
			d[s] = time.Duration(v * float64(time.Second))
		}
	}
	return d
}

// Save writes the durations in seconds, which people can read.
func (d Durations) Save(path string) error {
	seconds := map[Step]float64{}
	for s, took := range d {
		seconds[s] = took.Seconds()
	}
	text, err := json.Marshal(seconds)
	if err != nil {
		return err
	}
	return config.WriteFile(path, append(text, '\n'))
}
