//! Encryption of stored logins, where `[state] encrypt` names a key: AES-256-GCM, with the name of the file as associated
//! data, so that no login can be put in place of another.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use rmcp::transport::auth::AuthError;

use super::exposed;
use config::Sealing;

/// Beginning of an encrypted login.
const MARK: &[u8] = b"forgefs-login-1 ";
/// Purpose of the derived key.
const PURPOSE: &[u8] = b"forgefs logins";

/// Keys of one operation on stored logins. Each is read and derived once, and an earlier one only where it is needed.
pub(super) struct Keys<'a> {
    sealing: Option<&'a Sealing>,
    derived: Vec<LessSafeKey>,
}

impl<'a> Keys<'a> {
    /// Without keys logins are stored as they are.
    pub(super) fn new(sealing: Option<&'a Sealing>) -> Self {
        Self { sealing, derived: Vec::new() }
    }

    /// The key in use, then those before it; `None` behind the last.
    async fn key(&mut self, number: usize) -> Result<Option<&LessSafeKey>, AuthError> {
        let Some(sealing) = self.sealing else { return Ok(None) };
        let key = if number == 0 { Some(&sealing.key) } else { sealing.before.get(number - 1) };
        if let Some(key) = key.filter(|_| self.derived.len() == number) {
            self.derived.push(derived(&exposed(key).await?)?);
        }
        Ok(self.derived.get(number))
    }

    /// Encrypts a login for the file of this name, if there is a key.
    ///
    /// # Errors
    /// The key cannot be read.
    pub(super) async fn seal(&mut self, name: &str, login: Vec<u8>) -> Result<Vec<u8>, AuthError> {
        let Some(key) = self.key(0).await? else { return Ok(login) };
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| failed("there is no randomness"))?;
        let mut sealed = login;
        let done =
            key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(name.as_bytes()), &mut sealed);
        done.map_err(|_| failed("it cannot be encrypted"))?;
        Ok([MARK, STANDARD.encode([&nonce[..], &sealed].concat()).as_bytes()].concat())
    }

    /// Decrypts a login of the file of this name, with the key in use or one before it.
    ///
    /// # Errors
    /// It is encrypted and there is no key for it, or it is not and should be.
    pub(super) async fn open(&mut self, name: &str, login: Vec<u8>) -> Result<Vec<u8>, AuthError> {
        match (self.sealing, login.starts_with(MARK)) {
            (None, true) => Err(failed("it is encrypted, and `encrypt` of [state] names no key")),
            (Some(_), false) => {
                Err(failed("it is not encrypted: `forgefs auth encrypt` encrypts what was stored before"))
            }
            _ => self.open_any(name, login).await,
        }
    }

    /// Decrypts a login if it is encrypted, whether it should be or not.
    ///
    /// # Errors
    /// There is no key for it.
    pub(super) async fn open_any(&mut self, name: &str, login: Vec<u8>) -> Result<Vec<u8>, AuthError> {
        let Some(sealed) = login.strip_prefix(MARK) else { return Ok(login) };
        let sealed = STANDARD.decode(sealed).ok().filter(|sealed| sealed.len() > NONCE_LEN);
        let sealed = sealed.ok_or_else(|| failed("it is damaged"))?;
        let (nonce, sealed) = sealed.split_at(NONCE_LEN);
        let mut number = 0;
        while let Some(key) = self.key(number).await? {
            let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| failed("it is damaged"))?;
            let mut login = sealed.to_vec();
            if let Ok(login) = key.open_in_place(nonce, Aad::from(name.as_bytes()), &mut login) {
                return Ok(login.to_vec());
            }
            number += 1;
        }
        Err(failed("no key of [state] decrypts it, or it is of another file"))
    }
}

/// Key of the cipher.
fn derived(key: &str) -> Result<LessSafeKey, AuthError> {
    let too_short = || failed("the key of `encrypt` has fewer than 32 characters: `openssl rand -base64 32` makes one");
    let key = Some(key.trim()).filter(|key| key.len() >= 32).ok_or_else(too_short)?;
    let key = Salt::new(HKDF_SHA256, &[]).extract(key.as_bytes());
    let key = key.expand(&[PURPOSE], &AES_256_GCM).map(UnboundKey::from);
    key.map(LessSafeKey::new).map_err(|_| failed("no key can be made"))
}

fn failed(why: &str) -> AuthError {
    AuthError::CredentialStoreError(why.to_owned())
}
