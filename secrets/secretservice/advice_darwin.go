package secretservice

// absentAdvice is what to do without a Secret Service. macOS has its own keyring.
const absentAdvice = "Keep secrets in the Keychain: osaurus-sandbox config set secrets=keychain"
