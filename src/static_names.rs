//! Looks up names in the static program.
//!
//! A static glibc resolves hosts by /etc/hosts and DNS, and users and groups by /etc/passwd and /etc/group. For any
//! other way that the system's /etc/nsswitch.conf names, such as `resolve` or `myhostname`, it loads a module of the
//! system, and with it the system's C library. If that has another version, the program crashes.
//!
//! Architecture invariant: this is unsafe code because it calls the C library, which has no safe function for this.

use std::ffi::{CStr, c_char, c_int};

/// What each kind of name is looked up in.
const SERVICES: [(&CStr, &CStr); 3] = [(c"hosts", c"files dns"), (c"passwd", c"files"), (c"group", c"files")];

#[allow(unsafe_code)]
unsafe extern "C" {
    /// Replaces a line of /etc/nsswitch.conf for this process.
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// Never loads a module of the system. Call it before anything looks up a name.
#[allow(unsafe_code)]
pub(crate) fn without_modules() {
    for (database, services) in SERVICES {
        // SAFETY: both are strings that end with a NUL byte and live forever. The C library reads them, and returns an
        // error only if it does not know them.
        unsafe {
            __nss_configure_lookup(database.as_ptr(), services.as_ptr());
        }
    }
}
