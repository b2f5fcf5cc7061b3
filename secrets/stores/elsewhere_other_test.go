//go:build !darwin

package stores

import "osaurus-sandbox/config"

// elsewhere is the store that another system has.
const elsewhere = config.SecretsInKeychain
