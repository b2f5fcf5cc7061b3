package stores

import "osaurus-sandbox/config"

// elsewhere is a store of another system.
const elsewhere = config.SecretsInSecretService
