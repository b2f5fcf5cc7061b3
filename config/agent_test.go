package config

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"osaurus-sandbox/internal/fault"
)

var linuxUser = regexp.MustCompile(`^agent-[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// TestUserIsUnique checks that names have different users, even names that look like
// shortened ones.
func TestUserIsUnique(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const letters = "ab2-"
	owner := map[LinuxUser]AgentName{}
	check := func(name AgentName) LinuxUser {
		user := name.User()
		if len(user) > maxUser || !linuxUser.MatchString(string(user)) {
			t.Fatalf("%s has the user %q", name, user)
		}
		if before, ok := owner[user]; ok && before != name {
			t.Fatalf("%s and %s are both %s", before, name, user)
		}
		owner[user] = name
		return user
	}
	for range 20_000 {
		text := make([]byte, 1+random.IntN(agentName.max))
		for i := range text {
			text[i] = letters[random.IntN(len(letters))]
		}
		name, err := ParseAgentName(string(text))
		if err != nil {
			continue
		}
		user := check(name)
		check(AgentName(strings.TrimPrefix(string(user), userPrefix)))
		id := NewAgentID()
		if other := name.OtherUser(id); owner[other] != "" {
			t.Fatalf("%s of %s is %s's", other, name, owner[other])
		} else if len(other) != maxUser || !linuxUser.MatchString(string(other)) {
			t.Fatalf("%s has the other user %q", name, other)
		}
	}
	for name, want := range map[AgentName]LinuxUser{
		"alice": "agent-alice", AgentName(strings.Repeat("a", 26)): LinuxUser("agent-" + strings.Repeat("a", 26)),
		AgentName(strings.Repeat("a", 27)):     "agent-aaaaaaaaa-" + "",
		"0b7c3d5e-9f1a-4c1e-8a55-0f6a1b2c3d4e": "agent-0b7c3d5e--",
	} {
		if got := name.User(); got != want && !(strings.HasSuffix(string(want), "-") && strings.HasPrefix(string(got), string(want)) && len(got) == maxUser) {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func FuzzNameAgent(f *testing.F) {
	for _, seed := range []string{"Alice", "my agent", "root", "-x", "a/../b", "🦖", "\u212a", strings.Repeat("x", 300)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := NameAgent(text)
		if err != nil {
			if fault.KindOf(err) != fault.InvalidArgs || fault.AdviceOf(err) == "" {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if _, err := ParseAgentName(string(name)); err != nil || len(name) != len(text) || name == "root" {
			t.Errorf("%q became %q: %v", text, name, err)
		}
		if again, err := NameAgent(string(name)); again != name || err != nil {
			t.Errorf("%q became %q and then %q", text, name, again)
		}
		if user := name.User(); len(user) > maxUser || !linuxUser.MatchString(string(user)) {
			t.Errorf("%q has the user %q", text, user)
		}
	})
}

func TestAgentID(t *testing.T) {
	id := NewAgentID()
	for _, text := range []string{string(id), strings.ToLower(string(id))} {
		if got, err := ParseAgentID(text); got != id || err != nil {
			t.Errorf("%s: %s %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "alice", string(id) + "0", strings.ReplaceAll(string(id), "-", ""), " " + string(id)} {
		if _, err := ParseAgentID(bad); fault.KindOf(err) != fault.InvalidArgs || err == nil {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAgentSettings(t *testing.T) {
	s := AgentDefaults()
	for _, tc := range []struct {
		key        string
		good, bad  []string
		wantEffect Effect
	}{
		{"autonomousExec.enabled", []string{"true", "false"}, []string{"", "yes", "1"}, Live},
		{"autonomousExec.pluginCreate", []string{"true", "false"}, []string{"null"}, Live},
		{"maxCommandsPerTurn", []string{"1", "1000"}, []string{"0", "1001", "ten"}, Live},
		{"network", []string{"none", "open", "allow", "ask"}, []string{"", "outbound", "example.com", "*"}, Live},
		{"network.observe", []string{"true", "false"}, []string{"", "1"}, Live},
		{"network.rules", []string{"", "allow localhost", "allow *.example.org:443, deny tcp 10.0.0.0/8"}, []string{"allow", "permit a.b", "allow *.com", "[1]"}, Live},
		{"limits.cpuWeight", []string{"1", "10000"}, []string{"0", "10001"}, Live},
		{"limits.cpuPercent", []string{"0", "50", "800"}, []string{"-1", "801"}, Live},
		{"limits.memoryMB", []string{"0", "64", "8192"}, []string{"1", "63", "8193", "1e3"}, Live},
		{"limits.processes", []string{"16", "512"}, []string{"0", "15"}, Live},
		{"limits.diskMB", []string{"0", "16"}, []string{"15", "0x10"}, Live},
		{"limits.homeFiles", []string{"0", "1000"}, []string{"999"}, Live},
	} {
		for _, text := range tc.good {
			next, err := s.With(tc.key, text)
			if err != nil {
				t.Errorf("%s=%s: %v", tc.key, text, err)
			}
			raw, err := json.Marshal(next)
			var again AgentSettings
			if err != nil || json.Unmarshal(raw, &again) != nil || !reflect.DeepEqual(again, next) {
				t.Errorf("%s=%s: %+v became %+v", tc.key, text, next, again)
			}
			if d := s.Differences(next); len(d) > 1 || len(d) == 1 && d[0] != tc.key {
				t.Errorf("%s=%s changed %v", tc.key, text, d)
			}
		}
		for _, text := range tc.bad {
			next, err := s.With(tc.key, text)
			if fault.KindOf(err) != fault.InvalidArgs || !strings.Contains(fault.AdviceOf(err), tc.key+" is ") || len(s.Differences(next)) != 0 {
				t.Errorf("%s=%s: %v, %q", tc.key, text, err, fault.AdviceOf(err))
			}
		}
		if slices.Contains(tc.good, "0") != (AgentZero(tc.key) != "") {
			t.Errorf("0 of %s means %q", tc.key, AgentZero(tc.key))
		}
		if got := AgentEffectOf(tc.key); got != tc.wantEffect {
			t.Errorf("%s counts %s", tc.key, got)
		}
	}
	_, err := s.With("limits", "1")
	if fault.KindOf(err) != fault.InvalidArgs || !strings.Contains(fault.AdviceOf(err), "limits.memoryMB") {
		t.Errorf("%v", err)
	}
	var read AgentSettings
	if err := json.Unmarshal([]byte(`{"network": "none"}`), &read); err != nil || read.Network != NetworkClosed || read.MaxCommandsPerTurn != usualCommands {
		t.Errorf("%+v %v", read, err)
	}
	for _, text := range []string{`{"net": 1}`, `{"network": "all"}`, `[]`, `{"network": "none", "network": "open"}`} {
		if err := json.Unmarshal([]byte(text), &read); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}
