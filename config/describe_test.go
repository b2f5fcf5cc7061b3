package config

import "testing"

// Help says of every key what it means and may be, and what it says the default is can be set.
func TestDescribe(t *testing.T) {
	for _, d := range Describe() {
		s := Defaults()
		if _, err := fields().put(&s, d.Key, d.Default); d.Meaning == "" || d.Allowed == "" || err != nil || len(s.Differences(Defaults())) > 0 {
			t.Errorf("%+v %v", d, err)
		}
	}
	for _, d := range DescribeAgent() {
		if s, err := AgentDefaults().With(d.Key, d.Default); d.Meaning == "" || d.Allowed == "" || err != nil || s != AgentDefaults() {
			t.Errorf("%+v %v", d, err)
		}
	}
}
