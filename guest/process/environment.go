//go:build linux

package process

import "strings"

// MergeEnv lets variables replace those of the same name before them: some
// programs look at the first.
func MergeEnv(lists ...[]string) []string {
	var out []string
	at := map[string]int{}
	for _, list := range lists {
		for _, v := range list {
			name, _, _ := strings.Cut(v, "=")
			if i, ok := at[name]; ok {
				out[i] = v
				continue
			}
			at[name] = len(out)
			out = append(out, v)
		}
	}
	return out
}
