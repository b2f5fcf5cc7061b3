package plugins

import "time"

// Limits of a recipe.
const (
	// MaxRecipe bounds a recipe's text in bytes, like a request body of the bridge.
	MaxRecipe = 8 << 20
	// MaxFile bounds one file in bytes. Setup downloads larger data.
	MaxFile = 1 << 20
	// MaxFilesTotal leaves room in MaxRecipe for JSON escapes.
	MaxFilesTotal = 4 << 20
	// MaxFiles bounds the number of files, which are all read to verify a plugin.
	MaxFiles = 1000
	// MaxPath leaves room for the agent's home below PATH_MAX.
	MaxPath = 512
	// MaxPathDepth is more than hand-made folders need.
	MaxPathDepth = 16
	// MaxTools is more than a model can use of one plugin.
	MaxTools = 64
	// MaxParams bounds the parameters of one tool.
	MaxParams = 64
	// MaxList bounds every other list: dependencies, secrets, choices, topics.
	MaxList = 128
	// MaxText bounds a name, a version, an author: one line.
	MaxText = 256
	// MaxDescription bounds a description, which models read in each conversation.
	MaxDescription = 8 << 10
	// MaxToolText bounds what models read of one tool: all its descriptions, choices and defaults.
	MaxToolText = 64 << 10
	// MaxCommand bounds a shell command. Linux allows 128 KiB in one argument.
	MaxCommand = 96 << 10
	// MaxDepth bounds the nesting of lists and objects.
	MaxDepth = 32

	// maxValues bounds the JSON values of a recipe. Some hundred are usual.
	maxValues = 50_000

	// DefaultTimeout is the desktop app's.
	DefaultTimeout = 30 * time.Second
	// MaxTimeout is as long as callers of a tool wait.
	MaxTimeout = 10 * time.Minute

	// MaxToolName is the limit of MCP clients. Lint warns of names over usualToolName, which some
	// models refuse.
	MaxToolName   = 128
	usualToolName = 64

	// maxFindings bounds the findings of Lint: files that are no recipes have thousands.
	maxFindings = 100
)
