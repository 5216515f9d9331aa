//! The variables that are never bound: by their values a program loads, runs, trusts or is told something.
//!
//! A bound value comes out of a tool's answer, and so from whoever wrote that. These names decide what a program does;
//! what a program knows, a password or a token, has other names. They are refused by their ending where that says what
//! they are for, and by name or beginning otherwise, in groups that each have one reason. The table knows what is
//! common; it cannot know every program's variables.

/// Each group's names, in capital letters; one `*` in a name stands for anything.
const GROUPS: &[&str] = &[
    // Endings that say what a value is for: a command or a program to run, options, a place to look in, a file of
    // settings, whom to trust, what to go through.
    "*PATH *FLAGS *_OPTS *OPTIONS *_ARGS *_COMMAND *_CMD *_EXEC *_PROG *_RSH *_SSH *SHELL *EDITOR *PAGER *_BROWSER \
     *ASKPASS *_WRAPPER *_LAUNCHER *_RUNNER *_LINKER *_COMPILER *_PRELOAD *_MODULES *_PLUGINS *_HOOK *_HOOKS *_INIT \
     *_STARTUP *RC *_HOME *_ROOT *DIR *_FILE *_CONFIG *_CONF *_INI *_PROXY *_CA *_CERT *_CACERT *_CA_BUNDLE *_REGISTRY \
     *_INDEX_URL *_MIRROR",
    // The loader and the C library: code that is loaded and files that are read before a program begins.
    "LD_* _RLD_* DYLD_* *SAN_SYMBOLIZER_* GLIBC_TUNABLES MALLOC_* JEMALLOC_* TCMALLOC_* HOSTALIASES LOCALDOMAIN TZ \
     LLVM_PROFILE_* GCOV_PREFIX* GMON_OUT_PREFIX",
    // Shells: what they run when they start, prompt or look for a command.
    "ENV BASH_* BASHOPTS SHELLOPTS POSIXLY_CORRECT IFS PS0 PS1 PS2 PS3 PS4 PROMPT RPROMPT GLOBIGNORE EXECIGNORE \
     FIGNORE HISTFILE HISTTIMEFORMAT MAIL FCEDIT NULLCMD READNULLCMD FISH_* DIRENV_* STARSHIP_*",
    // Where a process is at home and in which language it speaks.
    "HOME TMP TEMP PWD OLDPWD USER LOGNAME USERNAME USERPROFILE XDG_* TERM TERMCAP TERMINFO* LANG LANGUAGE LC_* COMSPEC \
     PATHEXT APPDATA LOCALAPPDATA SYSTEMROOT",
    // Interpreters: what they load, run at their start, or are told. An index decides which code is installed.
    "PYTHON* PIP_* PIPENV_* PIPX_* UV_* POETRY_* CONDA_* VIRTUAL_ENV* PYENV_* PYTEST_* JUPYTER_* IPYTHON* \
     TWINE_REPOSITORY* NODE_* NPM_CONFIG_* YARN_* PNPM_* COREPACK_* NVM_* VOLTA_* BUN_* DENO_* ELECTRON_* TS_NODE_* \
     BABEL_* PERL5* PERLLIB PERL_* PERLDB* PERLIO* HARNESS_* RUBY* GEM_* BUNDLE_* RAKEOPT RBENV_* RVM_* SPEC_OPTS PHP_* \
     COMPOSER* LUA_* LUAROCKS_* TCL* TK_LIBRARY R_* JULIA_* GUILE_* EMACS* OCTAVE_* SBCL_* RACKET_* PLTADDONDIR \
     PLTCOLLECTS AWK* M4",
    // Runtimes and their tools.
    "JAVA_* _JAVA_* JDK_* JVM_* MAVEN_* MVNW_* GRADLE_* ANT_* SBT_* LEIN_* CLJ_* KOTLIN_* SCALA_* GROOVY_* JRUBY_* \
     CATALINA_* DOTNET_* CORECLR_* COR_* COMPLUS_* MONO_* MSBUILD* NUGET_* ERL_* ERLC_* ELIXIR_* IEX_* MIX_* HEX_* \
     REBAR_* GHC* CABAL_* STACK_* OCAML* CAML_* OPAM* DUNE_* GO111MODULE GOBIN GOENV GOPROXY GONOPROXY GONOSUMDB GOPRIVATE \
     GOSUMDB GOINSECURE GOTOOLCHAIN GOCACHE* GOMODCACHE GOWORK GOEXPERIMENT GODEBUG GOVCS GOAUTH CGO_* CARGO CARGO_* \
     RUSTC* RUSTDOC* RUSTUP_* RUST_* SWIFT* ZIG_*",
    // Compilers, linkers and builds: programs that they start, where they look, and what they are told.
    "CC CXX CPP LD AS AR NM RANLIB STRIP OBJCOPY FC F77 LEX YACC LDLIBS GCC_* COLLECT_* CCC_* CLANG_* CL _CL_ LINK \
     _LINK_ INCLUDE LIB DEPENDENCIES_OUTPUT SUNPRO_DEPENDENCIES CCACHE_* SCCACHE_* DISTCC_* MAKE MAKE_* MAKEFILES \
     MAKELEVEL BSDMAKE* CMAKE_* CTEST_* NINJA_* MESON* PKG_CONFIG* LIBTOOL* ACLOCAL* AUTOCONF AUTOMAKE AUTOM4TE* \
     CONFIG_SITE BAZEL* BUCK_* SCONS* CONAN_* VCPKG_* NIX_* NIXPKGS_* GUIX_* DEB_* DPKG_* APT_* RPM_* HOMEBREW_*",
    // Version control: programs that it starts, repositories and settings that it reads.
    "GIT_* GITHUB_ENV HG HGMERGE HGPLAIN* SVN_* BZR_* BRZ_* CVS* P4CONFIG P4DIFF P4MERGE P4PORT P4TICKETS P4TRUST \
     DARCS_* JJ_* FOSSIL_* GH_HOST GLAB_HOST",
    // Programs that start programs or read settings: editors, pagers, remote shells, archivers, debuggers, mail.
    "VISUAL SUDO_* DOAS_* LESS* MORE MAN* GROFF_* BAT_* DELTA_* BROWSER SSH_* RSH RSYNC_* SCP_* VIM* EXINIT NEXINIT \
     GVIMINIT NVIM* NANO_* GPG_* GNUPG* GPGME_* PINENTRY* TMUX* SCREEN* TAPE BZIP BZIP2 GZIP XZ_* ZSTD_* ZIP* UNZIP* \
     CPIO_* GREP_* RIPGREP_* ACK_* FZF_* PARALLEL* STRACE_* LTRACE_* GDB* LLDB_* VALGRIND_* PERF_* DEBUGINFOD_* \
     SYSTEMD_* DBUS_* MAILCAP* LYNX_* W3M_* NETRC ARIA2_* LFTP_*",
    // Clients of databases and clouds: plug-ins, helpers, and where they connect to. Their credentials are not here.
    "PGHOST* PGSERVICE* PGPASSFILE PGSSL* PGGSSLIB PGKRB* MYSQL_* MARIADB_* LIBMYSQL_* SQLITE_* ORACLE_* TNS_ADMIN \
     TWO_TASK ODBC* AWS_PROFILE AWS_DEFAULT_PROFILE AWS_ENDPOINT_* AWS_CLI_* AWS_CONTAINER_* AWS_EC2_METADATA_* \
     CLOUDSDK_* BOTO_* KUBECONFIG KUBECTL_* HELM_* DOCKER_HOST DOCKER_CONTEXT DOCKER_TLS* DOCKER_CLI_* BUILDX_* \
     BUILDKIT_* COMPOSE_* CONTAINERS_* TF_CLI_* TF_LOG* TF_PLUGIN_* ANSIBLE_* VAULT_ADDR VAULT_AGENT_* VAULT_CLIENT_* \
     VAULT_SKIP_VERIFY VAULT_TLS_* VAGRANT_*",
    // Desktops, toolkits and media: modules that they load.
    "DISPLAY WAYLAND_* XAUTHORITY XENVIRONMENT GTK* GDK_* GIO_* GI_* GSETTINGS_* GST_* QT_* QML* KDE* FONTCONFIG_* \
     LIBGL_* MESA_* VK_* EGL_* __EGL_* __GLX_* GBM_* LIBVA_* VDPAU_* OCL_* CUDA_* ALSA_* PULSE_* SDL_* SPA_* PIPEWIRE_* \
     MAGICK_* GS_* TEXINPUTS* TEXMF* BIBINPUTS BSTINPUTS FFREPORT",
    // Where connections go and what they trust.
    "SSL_* SSLKEYLOGFILE OPENSSL_* GNUTLS_* NSS_* P11_KIT_* KRB5* CURL_* RES_* RESOLV_* PROXYCHAINS_* TORSOCKS_* SOCKS*",
];
/// What the runtime itself goes by.
const OWN: &str = "MURMUR_";
/// Endings of what a program knows and does not do: a name with one is refused only if it stands in a group as it is.
const CREDENTIALS: [&str; 12] = [
    "_TOKEN",
    "_PASSWORD",
    "_PASSWD",
    "_PASS",
    "_PWD",
    "_PASSPHRASE",
    "_SECRET",
    "_API_KEY",
    "_ACCESS_KEY",
    "_SECRET_KEY",
    "_PRIVATE_KEY",
    "_AUTH",
];

/// Whether a variable of this name, in capital letters, decides what some program does.
pub(super) fn steers(name: &str) -> bool {
    let is_credential = CREDENTIALS.iter().any(|ending| name.ends_with(ending));
    let named = |pattern: &str| match pattern.split_once('*') {
        Some((beginning, ending)) => {
            let within = name.strip_prefix(beginning).is_some_and(|rest| rest.ends_with(ending));
            within && !is_credential
        }
        None => name == pattern,
    };
    name.starts_with(OWN) || GROUPS.iter().flat_map(|group| group.split_ascii_whitespace()).any(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_loads_or_runs_is_named_and_what_it_knows_is_not() {
        let steering = "PATH LD_PRELOAD LD_AUDIT BASH_ENV ENV IFS HOME TMPDIR PYTHONSTARTUP PYTHONPATH NODE_OPTIONS PERL5OPT \
            PERL5DB RUBYOPT IRBRC JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS ERL_AFLAGS \
            ERL_FLAGS ERL_ZFLAGS GIT_SSH_COMMAND GIT_EXTERNAL_DIFF SVN_SSH RSYNC_RSH TAR_OPTIONS MAKEFLAGS GNUMAKEFLAGS \
            AWKPATH AWKLIBPATH GCC_EXEC_PREFIX COMPILER_PATH LIBRARY_PATH CPATH VIMINIT EXINIT PSQLRC PSQL_EDITOR \
            RIPGREP_CONFIG_PATH CARGO_ALIAS_B CARGO_BUILD_RUSTC_WRAPPER RUSTC_WRAPPER GTK_MODULES GTK3_MODULES QT_PLUGIN_PATH \
            FCEDIT EDITOR VISUAL PAGER GIT_PAGER MANPAGER SYSTEMD_PAGER LESSOPEN BROWSER SSH_ASKPASS SUDO_ASKPASS KUBECONFIG \
            KUBE_EDITOR AWS_CONFIG_FILE DOCKER_CONFIG DOCKER_HOST HTTPS_PROXY NO_PROXY SSL_CERT_FILE CURL_HOME WGETRC \
            PIP_INDEX_URL UV_INDEX_URL NPM_CONFIG_REGISTRY GOPROXY GOFLAGS CMAKE_CXX_COMPILER_LAUNCHER CC CFLAGS LESSKEYIN \
            PROMPT_COMMAND ZDOTDIR XDG_CONFIG_HOME ASAN_OPTIONS OPENSSL_CONF PGSERVICEFILE MYSQL_HOME ANSIBLE_CONFIG \
            DOTNET_STARTUP_HOOKS CORECLR_PROFILER LUA_INIT R_PROFILE PHPRC EMACSLOADPATH GUILE_LOAD_PATH M4PATH TEXINPUTS \
            MURMUR_GATEWAY_TOKEN";
        for name in steering.split_ascii_whitespace() {
            assert!(steers(name), "{name}");
        }
        let known = "API_TOKEN DB_PASSWORD AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN GH_TOKEN GITHUB_TOKEN \
            GITLAB_TOKEN PGPASSWORD PGUSER MYSQL_PWD REDISCLI_AUTH NPM_TOKEN NODE_AUTH_TOKEN CARGO_REGISTRY_TOKEN \
            CARGO_REGISTRIES_MINE_TOKEN UV_PUBLISH_TOKEN TWINE_PASSWORD POETRY_HTTP_BASIC_MINE_PASSWORD GEM_HOST_API_KEY \
            HOMEBREW_GITHUB_API_TOKEN DOCKER_PASSWORD VAULT_TOKEN TF_VAR_SECRET ORG_GRADLE_PROJECT_KEY MAVEN_GPG_PASSPHRASE \
            GPG_PASSPHRASE SSH_PRIVATE_KEY SSHPASS RESTIC_PASSWORD OPENAI_API_KEY GOOGLE_API_KEY MAILGUN_KEY LDAP_PASSWORD \
            DATABASE_URL REDIS_URL SENTRY_DSN STRIPE_KEY JWT_SECRET CRON_SECRET SECRET V TOKEN PASSWORD KEY MURMURS";
        for name in known.split_ascii_whitespace() {
            assert!(!steers(name), "{name}");
        }
    }
}
