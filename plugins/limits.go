package plugins

import "time"

// What a recipe may be. What is more is refused, with the place.
const (
	// MaxRecipe is a recipe's text in bytes: what a program may hand to the bridge at once.
	MaxRecipe = 8 << 20
	// MaxFile is one file: a long script has a tenth. What is bigger is data, and downloaded.
	MaxFile = 1 << 20
	// MaxFilesTotal leaves room in MaxRecipe for what escapes cost in JSON.
	MaxFilesTotal = 4 << 20
	// MaxFiles is how many there are: each costs a moment whenever a plugin is verified.
	MaxFiles = 1000
	// MaxPath is far below what the shares carry (4096), with the agent's home before it.
	MaxPath = 512
	// MaxPathDepth is deeper than what people make by hand.
	MaxPathDepth = 16
	// MaxTools is what a model can hold in mind of one plugin, and more.
	MaxTools = 64
	// MaxParams is of one tool.
	MaxParams = 64
	// MaxList bounds every other list: dependencies, secrets, choices, topics.
	MaxList = 128
	// MaxText is a name, a version, an author: one line.
	MaxText = 256
	// MaxDescription is read by models each time they choose: some pages are too long already.
	MaxDescription = 8 << 10
	// MaxToolText is all that models read of one tool: its description, and its arguments with theirs,
	// their choices and defaults. It is more than ten thousand words.
	MaxToolText = 64 << 10
	// MaxCommand is a shell command. Linux passes no argument longer than 128 KiB.
	MaxCommand = 96 << 10
	// MaxDepth is how deep lists and objects may be in each other, in metadata too.
	MaxDepth = 32

	// maxValues is how many values a recipe's JSON has: some hundred are usual, and one that has
	// all it may have of everything else is no use to anybody.
	maxValues = 50_000

	// DefaultTimeout is a tool's where it does not say: the desktop app's.
	DefaultTimeout = 30 * time.Second
	// MaxTimeout is as long as anybody waits for one call.
	MaxTimeout = 10 * time.Minute

	// MaxToolName is the longest name of a tool that MCP's clients take; lint warns from
	// usualToolName on, since some models' interfaces refuse more.
	MaxToolName   = 128
	usualToolName = 64

	// maxFindings is as many as anybody reads: a file that is no recipe at all has thousands.
	maxFindings = 100
)
