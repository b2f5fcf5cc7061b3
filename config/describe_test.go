package config

import "testing"

// TestDescribe checks that every key has a description and a valid default.
func TestDescribe(t *testing.T) {
	for _, d := range Describe() {
		s := Defaults()
		if _, err := fields().put(&s, d.Key, d.Default); d.Meaning == "" || d.Allowed == "" || err != nil || len(s.Differences(Defaults())) > 0 {
			t.Errorf("%+v %v", d, err)
		}
	}
	for _, d := range DescribeAgent() {
		if s, err := AgentDefaults().With(d.Key, d.Default); d.Meaning == "" || d.Allowed == "" || err != nil || len(s.Differences(AgentDefaults())) > 0 {
			t.Errorf("%+v %v", d, err)
		}
	}
}
