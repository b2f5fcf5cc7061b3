package config

// History configures the checkpoints of agents' homes.
type History struct {
	// Enabled makes a checkpoint before and after each call that may write.
	Enabled bool
	// MaxMB is how much of the disk checkpoints may take. The oldest are deleted first.
	MaxMB int
	// MaxDays is how long a checkpoint is kept.
	MaxDays int
}

// The bounds of these settings only catch typos.
const (
	minHistoryMB, maxHistoryMB = 16, 1 << 20
	maxHistoryDays             = 3650
)

func historyDefaults() History { return History{Enabled: true, MaxMB: 2048, MaxDays: 30} }

func historyFields() table[Settings] {
	return table[Settings]{
		live(boolField("history.enabled", "make a checkpoint of an agent's home before and after each call that may write", func(s *Settings) *bool { return &s.History.Enabled })),
		live(intField("history.maxMB", "how much of the disk checkpoints may take; the oldest are deleted first", minHistoryMB, maxHistoryMB, func(s *Settings) *int { return &s.History.MaxMB })),
		live(intField("history.maxDays", "days after which a checkpoint is deleted", 1, maxHistoryDays, func(s *Settings) *int { return &s.History.MaxDays })),
	}
}
