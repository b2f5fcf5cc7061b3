package config

import "slices"

// AgentSettings are the settings of an agent. The zero value is not valid: see
// AgentDefaults.
type AgentSettings struct {
	// AutonomousExec allows tools that change something. With PluginCreate, the agent
	// may also create plugins.
	AutonomousExec, PluginCreate bool
	// MaxCommandsPerTurn bounds the commands that it runs before it answers.
	MaxCommandsPerTurn int
	Network            NetworkMode
	// NetworkObserve records what the network's policy refuses, and lets it pass.
	NetworkObserve bool
	// NetworkRules come after those of all agents: see Settings.
	NetworkRules []NetworkRule
	Limits       Limits
}

// Limits bounds what an agent uses of the guest and of this computer. The meaning of zero
// is at each field.
type Limits struct {
	CPUWeight       int // relative to other agents; the default is 100
	CPUPercent      int // of one processor; 0 is all processors
	MemoryMB        int // 0 is half of the guest's
	Processes       int
	DiskMB          int // of its changes in the guest; 0 is half of the guest's disk
	DiskFiles       int // like DiskMB
	DiskMBps        int // read or written per second; 0 is no limit
	NetworkMBps     int // sent and received per second; 0 is no limit
	NetworkMBPerDay int // like NetworkMBps
	HomeMB          int // of its home folder, on this computer; 0 is no limit
	HomeFiles       int // like HomeMB
}

// The bounds of an agent's settings.
const (
	MaxCommandsPerTurn          = 1000      // a turn with more is a loop
	MaxJobs                     = 16        // background jobs that run at once; the guest refuses more
	minCPUWeight, maxCPUWeight  = 1, 10_000 // Linux's own
	maxCPUPercent               = 100 * maxCPUs
	minAgentMB, maxAgentMB      = 64, 1024 * maxMemoryGB // python and node need this much
	minProcesses, maxProcesses  = 16, 32_768             // a shell with a pipeline; the default pid_max
	minDiskMB, maxDiskMB        = 16, 1024 * maxDiskGB
	minDiskFiles, maxDiskFiles  = 1000, 100_000_000 // one package has hundreds of files
	minDiskMBps, maxDiskMBps    = 1, 100_000
	minNetworkMB, maxNetworkMB  = 1, 100_000_000
	usualWeight, usualProcesses = 100, 512
	usualCommands               = 10 // the desktop app's
)

// AgentDefaults returns the default settings of agents.
func AgentDefaults() AgentSettings {
	return AgentSettings{
		PluginCreate: true, MaxCommandsPerTurn: usualCommands, Network: NetworkOpen, NetworkRules: []NetworkRule{},
		Limits: Limits{CPUWeight: usualWeight, Processes: usualProcesses},
	}
}

// agentFields returns the settings in display order.
func agentFields() table[AgentSettings] {
	limit := func(key, meaning string, lo, hi int, zero string, at func(*Limits) *int) field[AgentSettings] {
		return live(limitField("limits."+key, meaning, lo, hi, zero, func(s *AgentSettings) *int { return at(&s.Limits) }))
	}
	return table[AgentSettings]{
		live(boolField("autonomousExec.enabled", "let the agent's tools change something: run commands, write files, install", func(s *AgentSettings) *bool { return &s.AutonomousExec })),
		live(boolField("autonomousExec.pluginCreate", "let it create plugins too", func(s *AgentSettings) *bool { return &s.PluginCreate })),
		live(intField("maxCommandsPerTurn", "commands that it may run before it answers", 1, MaxCommandsPerTurn, func(s *AgentSettings) *int { return &s.MaxCommandsPerTurn })),
		live(textField("network", "what it reaches: the internet (open), what rules allow (allow), or what a person allows when asked (ask)", networkModeAllowed, parseNetworkMode, func(s *AgentSettings) *NetworkMode { return &s.Network })),
		live(boolField("network.observe", "record what would be refused, and let all of it pass", func(s *AgentSettings) *bool { return &s.NetworkObserve })),
		live(rulesField("network.rules", "what else it reaches, or does not; deny wins", func(s *AgentSettings) *[]NetworkRule { return &s.NetworkRules })),
		limit("cpuWeight", "its share of the processors when agents compete", minCPUWeight, maxCPUWeight, "", func(l *Limits) *int { return &l.CPUWeight }),
		limit("cpuPercent", "processor time, in percent of one processor", 1, maxCPUPercent, "all processors", func(l *Limits) *int { return &l.CPUPercent }),
		limit("memoryMB", "its memory", minAgentMB, maxAgentMB, "half of the guest's", func(l *Limits) *int { return &l.MemoryMB }),
		limit("processes", "processes and threads", minProcesses, maxProcesses, "", func(l *Limits) *int { return &l.Processes }),
		limit("diskMB", "disk space for what it installs and changes in the guest", minDiskMB, maxDiskMB, "half of the guest's disk", func(l *Limits) *int { return &l.DiskMB }),
		limit("diskFiles", "files that it adds or changes in the guest", minDiskFiles, maxDiskFiles, "half of what the guest's disk can have", func(l *Limits) *int { return &l.DiskFiles }),
		limit("diskMBps", "MB per second that it reads from its disk in the guest, and that it writes to it", minDiskMBps, maxDiskMBps, "no limit", func(l *Limits) *int { return &l.DiskMBps }),
		limit("networkMBps", "MB per second that it and its plugins send and receive", minNetworkMB, maxDiskMBps, "no limit", func(l *Limits) *int { return &l.NetworkMBps }),
		limit("networkMBPerDay", "MB that it and its plugins send and receive in a day, from midnight UTC", minNetworkMB, maxNetworkMB, "no limit", func(l *Limits) *int { return &l.NetworkMBPerDay }),
		limit("homeMB", "its home folder, on hosts that can enforce it", minDiskMB, maxDiskMB, "no limit", func(l *Limits) *int { return &l.HomeMB }),
		limit("homeFiles", "files in its home folder, on hosts that can enforce it", minDiskFiles, maxDiskFiles, "no limit", func(l *Limits) *int { return &l.HomeFiles }),
	}
}

// AllowsLocalhost reports whether a rule lets the agent connect to this computer.
func (s AgentSettings) AllowsLocalhost() bool {
	return slices.ContainsFunc(s.NetworkRules, func(r NetworkRule) bool { return !r.Deny && r.Host == Localhost })
}

// AgentKeys returns the keys of agents' settings in display order.
func AgentKeys() []string { return agentFields().keys() }

// DescribeAgent describes agents' settings in display order.
func DescribeAgent() []Description { return agentFields().describe(AgentDefaults()) }

// AgentEffectOf returns when a change of the key takes effect.
func AgentEffectOf(key string) Effect { return agentFields().effect(key) }

// AgentZero returns the special meaning of 0, or "" if there is none.
func AgentZero(key string) string {
	f, _ := agentFields().find(key)
	return f.zero
}

// With returns the settings with one changed. "KEY+" adds items to a list, and "KEY-" removes them.
func (s AgentSettings) With(key, text string) (AgentSettings, error) {
	_, err := agentFields().put(&s, key, text)
	return s, err
}

// Differences returns the keys whose values differ.
func (s AgentSettings) Differences(other AgentSettings) []string {
	return agentFields().differences(&s, &other)
}

// MarshalJSON writes every setting under its key.
func (s AgentSettings) MarshalJSON() ([]byte, error) { return agentFields().marshal(&s) }

// UnmarshalJSON reads what MarshalJSON wrote. Missing settings have their defaults.
func (s *AgentSettings) UnmarshalJSON(text []byte) error {
	doc, err := parseDocument(text)
	if err != nil {
		return err
	}
	read := AgentDefaults()
	if err := agentFields().decode(&read, doc, func(string) bool { return false }); err != nil {
		return err
	}
	*s = read
	return nil
}
