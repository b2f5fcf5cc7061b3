package config

// BridgeCalls are the groups of calls of the bridge that have a limit each.
type BridgeCalls int

const (
	SecretCalls BridgeCalls = iota
	ConfigCalls             // get and set
	InferenceCalls
	HTTPCalls // events and plugins
	DispatchCalls
	MemoryCalls // query and store
	LogCalls
	bridgeGroups
)

// BridgeLimits bounds the calls of each group that the bridge accepts from an agent's programs
// in a minute. Refused calls do not count. A limit of 0 refuses all.
type BridgeLimits [bridgeGroups]int

// maxPerMinute is more than a bridge can serve. It catches typos.
const maxPerMinute = 60_000

var bridgeCalls = [bridgeGroups]struct {
	key, what string
	usual     int
}{
	SecretCalls:    {"secrets", "requests for secrets", 120},               // programs ask once
	ConfigCalls:    {"config", "requests for plugins' configuration", 600}, // cheap, and plugins have loops
	InferenceCalls: {"inference", "requests for inference", 60},
	HTTPCalls:      {"http", "requests about events and plugins", 120},
	DispatchCalls:  {"dispatch", "tasks", 10}, // each starts an agent's task
	MemoryCalls:    {"memory", "requests to remember or recall", 120},
	LogCalls:       {"log", "entries in the log", 1200}, // one each 50 ms: more is overwritten before it is read
}

// String names the calls for people.
func (c BridgeCalls) String() string { return bridgeCalls[c].what }

func bridgeDefaults() (l BridgeLimits) {
	for i, c := range bridgeCalls {
		l[i] = c.usual
	}
	return l
}

func bridgeFields() (t table[Settings]) {
	for i, c := range bridgeCalls {
		t = append(t, live(intField("bridge."+c.key+"PerMinute", c.what+" by an agent's programs in a minute; 0 is none", 0, maxPerMinute, func(s *Settings) *int { return &s.Bridge[i] })))
	}
	return t
}
