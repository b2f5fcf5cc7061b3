package config

// AgentSettings are what a person chose for an agent. The zero value is not
// valid: AgentDefaults returns one that is.
type AgentSettings struct {
	// AutonomousExec lets the agent use tools that change something; with
	// PluginCreate it may also make plugins of its own.
	AutonomousExec, PluginCreate bool
	// MaxCommandsPerTurn is how many commands it may run before it answers.
	MaxCommandsPerTurn int
	Network            Network
	// HostServices lets it reach, by the network, what listens on this computer.
	HostServices bool
	Limits       Limits
}

// Limits are what one agent can use of the guest and of this computer. Zero is
// what each says.
type Limits struct {
	CPUWeight  int // against other agents; the usual is 100
	CPUPercent int // of one processor; 0 is all there are
	MemoryMB   int // 0 is half of the guest's
	Processes  int
	DiskMB     int // of what it installs and changes in the guest; 0 is half of the guest's disk
	DiskFiles  int // as DiskMB
	DiskMBps   int // read or written per second; 0 is no limit
	HomeMB     int // of its home folder, on this computer; 0 is no limit
	HomeFiles  int // as HomeMB
}

// The bounds of an agent's settings.
const (
	MaxCommandsPerTurn          = 1000      // a turn with more is a loop
	MaxJobs                     = 16        // background jobs that run at once; the guest refuses more
	minCPUWeight, maxCPUWeight  = 1, 10_000 // Linux's own
	maxCPUPercent               = 100 * maxCPUs
	minAgentMB, maxAgentMB      = 64, 1024 * maxMemoryGB // with less, neither python nor node starts
	minProcesses, maxProcesses  = 16, 32_768             // a shell with a pipeline; what a small kernel can number
	minDiskMB, maxDiskMB        = 16, 1024 * maxDiskGB
	minDiskFiles, maxDiskFiles  = 1000, 100_000_000 // one package has hundreds of files
	minDiskMBps, maxDiskMBps    = 1, 100_000
	usualWeight, usualProcesses = 100, 512
	usualCommands               = 10 // the desktop app's
)

// AgentDefaults returns the settings of an agent for whom nobody chose anything.
func AgentDefaults() AgentSettings {
	return AgentSettings{
		PluginCreate: true, MaxCommandsPerTurn: usualCommands, Network: NetworkOutbound,
		Limits: Limits{CPUWeight: usualWeight, Processes: usualProcesses},
	}
}

// agentFields are the keys of an agent's settings in the order they are shown.
func agentFields() table[AgentSettings] {
	limit := func(key, meaning string, lo, hi int, zero string, at func(*Limits) *int) field[AgentSettings] {
		of := func(s *AgentSettings) *int { return at(&s.Limits) }
		f := live(intField("limits."+key, meaning, lo, hi, of))
		if zero != "" {
			f = orZero(zero, f, of)
		}
		return f
	}
	return table[AgentSettings]{
		live(boolField("autonomousExec.enabled", "let the agent's tools change something: run commands, write files, install", func(s *AgentSettings) *bool { return &s.AutonomousExec })),
		live(boolField("autonomousExec.pluginCreate", "let it make plugins too", func(s *AgentSettings) *bool { return &s.PluginCreate })),
		live(intField("maxCommandsPerTurn", "commands that it may run before it answers", 1, MaxCommandsPerTurn, func(s *AgentSettings) *int { return &s.MaxCommandsPerTurn })),
		live(textField("network", "what it reaches outside of the guest", networkAllowed, parseNetwork, func(s *AgentSettings) *Network { return &s.Network })),
		live(boolField("hostServices", "let it reach what listens on this computer too, if network is outbound", func(s *AgentSettings) *bool { return &s.HostServices })),
		limit("cpuWeight", "its share of the processors when agents compete", minCPUWeight, maxCPUWeight, "", func(l *Limits) *int { return &l.CPUWeight }),
		limit("cpuPercent", "processor time, in percent of one processor", 1, maxCPUPercent, "all processors", func(l *Limits) *int { return &l.CPUPercent }),
		limit("memoryMB", "its memory", minAgentMB, maxAgentMB, "half of the guest's", func(l *Limits) *int { return &l.MemoryMB }),
		limit("processes", "processes and threads", minProcesses, maxProcesses, "", func(l *Limits) *int { return &l.Processes }),
		limit("diskMB", "what it installs and changes in the guest", minDiskMB, maxDiskMB, "half of the guest's disk", func(l *Limits) *int { return &l.DiskMB }),
		limit("diskFiles", "files of what it installs and changes in the guest", minDiskFiles, maxDiskFiles, "half of what the guest's disk can have", func(l *Limits) *int { return &l.DiskFiles }),
		limit("diskMBps", "what it reads in a second of what it has installed and changed in the guest, and what it writes there", minDiskMBps, maxDiskMBps, "no limit", func(l *Limits) *int { return &l.DiskMBps }),
		limit("homeMB", "its home folder, on hosts that can enforce it", minDiskMB, maxDiskMB, "no limit", func(l *Limits) *int { return &l.HomeMB }),
		limit("homeFiles", "files in its home folder, on hosts that can enforce it", minDiskFiles, maxDiskFiles, "no limit", func(l *Limits) *int { return &l.HomeFiles }),
	}
}

// AgentKeys are the keys of an agent's settings, in the order they are shown.
func AgentKeys() []string { return agentFields().keys() }

// DescribeAgent says what there is to know of each key of an agent's settings, in that order.
func DescribeAgent() []Description { return agentFields().describe(AgentDefaults()) }

// AgentEffectOf says when a key of an agent's settings takes effect.
func AgentEffectOf(key string) Effect { return agentFields().effect(key) }

// AgentZero says what 0 means in an agent's settings; "" is what it says.
func AgentZero(key string) string {
	f, _ := agentFields().find(key)
	return f.zero
}

// With returns the settings with one changed, from its text.
func (s AgentSettings) With(key, text string) (AgentSettings, error) {
	_, err := agentFields().put(&s, key, text)
	return s, err
}

// Differences lists the keys of what two settings do not have in common.
func (s AgentSettings) Differences(other AgentSettings) []string {
	return agentFields().differences(&s, &other)
}

// MarshalJSON writes every setting under its key.
func (s AgentSettings) MarshalJSON() ([]byte, error) { return agentFields().marshal(&s) }

// UnmarshalJSON reads what MarshalJSON wrote. What is not in it is as
// AgentDefaults has it.
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
