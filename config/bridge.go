package config

// BridgeLimits bounds the requests per minute that the bridge accepts from an agent's
// programs. Refused requests do not count. A limit of 0 refuses all.
type BridgeLimits struct {
	Secrets   int
	Config    int // get and set
	Inference int
	HTTP      int // events and plugins
	Dispatch  int
	Memory    int // query and store
	Log       int
}

// maxPerMinute is more than a bridge can serve. It catches typing errors.
const maxPerMinute = 60_000

func bridgeDefaults() BridgeLimits {
	return BridgeLimits{
		Secrets:   120, // programs ask once
		Config:    600, // cheap, and plugins have loops
		Inference: 60,
		HTTP:      120,
		Dispatch:  10, // each starts an agent's task
		Memory:    120,
		Log:       1200, // a line each 50 ms: more is overwritten before it is read
	}
}

func bridgeFields() table[Settings] {
	perMinute := func(of, requests string, at func(*BridgeLimits) *int) field[Settings] {
		return live(intField("bridge."+of+"PerMinute", requests+" by an agent's programs in a minute; 0 is none", 0, maxPerMinute, func(s *Settings) *int { return at(&s.Bridge) }))
	}
	return table[Settings]{
		perMinute("secrets", "requests for secrets", func(l *BridgeLimits) *int { return &l.Secrets }),
		perMinute("config", "requests for plugins' configuration", func(l *BridgeLimits) *int { return &l.Config }),
		perMinute("inference", "requests for inference", func(l *BridgeLimits) *int { return &l.Inference }),
		perMinute("http", "requests about events and plugins", func(l *BridgeLimits) *int { return &l.HTTP }),
		perMinute("dispatch", "tasks", func(l *BridgeLimits) *int { return &l.Dispatch }),
		perMinute("memory", "requests to remember or recall", func(l *BridgeLimits) *int { return &l.Memory }),
		perMinute("log", "entries in the log", func(l *BridgeLimits) *int { return &l.Log }),
	}
}
