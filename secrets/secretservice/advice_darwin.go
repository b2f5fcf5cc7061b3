package secretservice

// absentAdvice: macOS has a keyring of its own.
const absentAdvice = "Keep secrets in the Keychain: osaurus-sandbox config set secrets=keychain"
