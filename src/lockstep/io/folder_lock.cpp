#include <lockstep/io/folder_lock.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/process_state.hpp>
#include <lockstep/base/random_bits.hpp>
#include <lockstep/base/read_file.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {
namespace fs = std::filesystem;
namespace {

/// Contents of a lock file, one line each.
struct LockOwner {
  std::string host;
  std::string machine;  ///< its boot and its process numbers: the scope of `pid`
  int pid = 0;
  std::uint64_t pid_start = 0;
  std::string job;          ///< for people
  std::string slurm_job;    ///< empty: none
  int slurm_start = 0;      ///< number of earlier starts of the job
  std::string since;        ///< UTC
  std::string token = "?";  ///< unique
  bool is_read = false;     ///< whether the file could be parsed
};

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string this_machine() {
  std::error_code ignored;
  return boot_id() + " " + fs::read_symlink("/proc/self/ns/pid", ignored).string();
}

LockOwner myself() {
  LockOwner me;
  me.host = host_name();
  me.machine = this_machine();
  me.pid = ::getpid();
  me.pid_start = process_start(me.pid);
  me.slurm_job = environment("SLURM_JOB_ID");
  me.slurm_start = std::atoi(environment("SLURM_RESTART_COUNT").c_str());
  const int parent = ::getppid();
  me.job = me.slurm_job.empty() ? fmt::format("started by process {}, {}", parent,
                                              first_line(fmt::format("/proc/{}/comm", parent)))
                                : "Slurm job " + me.slurm_job;
  me.since = utc_text("%Y-%m-%d %H:%M:%S UTC");
  me.token = fmt::format("{:016x}", random_bits());
  return me;
}

std::string text_of(const LockOwner& owner) {
  return fmt::format(
      "host {}\nmachine {}\nprocess {}\nprocess_start {}\njob {}\nslurm_job {}\nslurm_start {}\n"
      "since {}\ntoken {}\n",
      owner.host, owner.machine, owner.pid, owner.pid_start, owner.job, owner.slurm_job,
      owner.slurm_start, owner.since, owner.token);
}

LockOwner owner_in(const std::string& text) {
  std::istringstream in(text);
  LockOwner owner;
  for (std::string line; std::getline(in, line);) {
    const auto space = line.find(' ');
    const std::string key = line.substr(0, space);
    const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    if (key == "host") owner.host = value;
    if (key == "machine") owner.machine = value;
    if (key == "process") owner.pid = std::atoi(value.c_str());
    if (key == "process_start") owner.pid_start = std::strtoull(value.c_str(), nullptr, 10);
    if (key == "job") owner.job = value;
    if (key == "slurm_job") owner.slurm_job = value;
    if (key == "slurm_start") owner.slurm_start = std::atoi(value.c_str());
    if (key == "since") owner.since = value;
    if (key == "token" && value.find('/') == std::string::npos) owner.token = value;
  }
  owner.is_read = owner.pid > 0 && owner.token != "?";
  return owner;
}

/// Nothing if there is no such file. Reads again what cannot be parsed: the owner may have moved
/// the folder aside meanwhile, and on a file system without links it may still be writing.
std::optional<LockOwner> read_owner(const fs::path& file) {
  constexpr int attempts = 100;
  constexpr auto pause = std::chrono::milliseconds(10);
  constexpr std::int64_t most_bytes = 1 << 16U;  // names and numbers
  for (int attempt = 1;; ++attempt) {
    std::error_code ignored;
    const fs::file_status there = fs::status(file, ignored);
    if (!fs::exists(there)) return std::nullopt;
    LockOwner owner = owner_in(read_small_file_or_nothing(file, most_bytes));
    if (owner.is_read || attempt == attempts) return owner;
    std::this_thread::sleep_for(pause);
  }
}

/// A file under a unique name, until the end of the scope.
class Written {
 public:
  Written(fs::path path, std::string text) : path_(std::move(path)), text_(std::move(text)) {
    File file = File::create(path_);
    try {
      file.write_at(0, text_.data(), std::ssize(text_));
      file.sync();
      file.close();
    } catch (...) {
      ::unlink(path_.c_str());
      throw;
    }
  }
  ~Written() { ::unlink(path_.c_str()); }
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;

  /// Links it to a second name; false if that is taken.
  [[nodiscard]] bool link_to(const fs::path& name) const {
    if (::link(path_.c_str(), name.c_str()) == 0) return true;
    if (errno == EPERM || errno == ENOTSUP || errno == ENOSYS) return write_new(name);
    if (errno != EEXIST) throw FileError("create", name, errno);
    // A network file system may have created the link but lost the answer.
    struct stat info {};
    return ::stat(path_.c_str(), &info) == 0 && info.st_nlink > 1;
  }
  /// Replaces `name`.
  void rename_to(const fs::path& name) const {
    if (::rename(path_.c_str(), name.c_str()) != 0) throw FileError("write", name, errno);
  }
  [[nodiscard]] const fs::path& path() const noexcept { return path_; }

 private:
  /// For file systems without links. A reader that comes before it is written finds a living owner.
  [[nodiscard]] bool write_new(const fs::path& name) const {
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST) return false;
    if (file < 0) throw FileError("create", name, errno);
    const bool written = ::write(file, text_.data(), text_.size()) == std::ssize(text_);
    const int error = errno;
    ::close(file);
    if (!written) throw FileError("write", name, error);
    return true;
  }

  fs::path path_;
  std::string text_;
};

/// The file in which the successor of a dead owner claims the lock.
fs::path claim_after(const fs::path& folder, const LockOwner& owner) {
  return folder / fmt::format("{}.after-{}", FolderLock::file_name, owner.token);
}

/// The present owner: that of the file, or the last that claimed to follow it.
struct Chain {
  std::optional<LockOwner> owner;
  fs::path file;  ///< the owner's
  std::vector<fs::path> claims;
};
Chain walk(const fs::path& folder) {
  Chain chain{.owner = read_owner(folder / FolderLock::file_name),
              .file = folder / FolderLock::file_name};
  while (chain.owner) {
    fs::path claim = claim_after(folder, *chain.owner);
    auto next = read_owner(claim);
    if (!next || next->token == chain.owner->token) break;
    chain.owner = std::move(next);
    chain.file = claim;
    chain.claims.push_back(std::move(claim));
  }
  return chain;
}

/// Seconds since the owner's last heartbeat; `now` was written just now, by the same clock.
double silence_s(const fs::path& owners, const fs::path& now) {
  struct stat then {
  }, at{};
  if (::stat(owners.c_str(), &then) != 0 || ::stat(now.c_str(), &at) != 0) return 0;
  return static_cast<double>(at.st_mtim.tv_sec - then.st_mtim.tv_sec) +
         1e-9 * static_cast<double>(at.st_mtim.tv_nsec - then.st_mtim.tv_nsec);
}

bool has_died_here(const LockOwner& owner) {
  if (::kill(owner.pid, 0) != 0 && errno == ESRCH) return true;
  const ProcessState state = process_state(owner.pid);
  if (state == ProcessState::gone) return false;  // another user's process, hidden by this system
  return state == ProcessState::died || process_start(owner.pid) != owner.pid_start;
}

bool is_dead(const LockOwner& owner, const LockOwner& me, double silence) {
  // Slurm restarts a job only when it considers its last start ended, for example after the loss of
  // a node. That node may live on, isolated; its owner then sees that it has lost the folder.
  if (!me.slurm_job.empty() && owner.slurm_job == me.slurm_job &&
      me.slurm_start > owner.slurm_start) {
    return true;
  }
  if (owner.is_read && owner.machine == me.machine) return has_died_here(owner);
  return silence > static_cast<double>(FolderLock::dead_after.count());
}

std::string words(const LockOwner& owner) {
  if (!owner.is_read) return "an owner whose lock cannot be read";
  return fmt::format("process {} on {} ({}; since {})", owner.pid, owner.host, owner.job,
                     owner.since);
}

[[noreturn]] void refuse(const fs::path& folder, FolderLock::Kind kind, const LockOwner& owner,
                         const LockOwner& me, double silence) {
  std::string remedy = fmt::format("wait for its end, or name another folder with {}", kind.option);
  if (!owner.is_read || owner.machine != me.machine) {
    remedy += fmt::format(
        " (its last heartbeat is {:.0f} s old; after {} s without one it counts as dead; if you "
        "know that it is dead, remove {})",
        silence, FolderLock::dead_after.count(), (folder / FolderLock::file_name).string());
  }
  throw InputError(fmt::format("another {0} is using the {0} folder {1}: {2}; {3}.", kind.name,
                               folder.string(), words(owner), remedy));
}

/// True if `mine` is now the lock; false if another process was faster.
bool follow(const fs::path& folder, FolderLock::Kind kind, const Chain& dead, const LockOwner& me,
            const Written& mine) {
  const fs::path claim = claim_after(folder, *dead.owner);
  if (!mine.link_to(claim)) return false;
  // The dead owner may have had a successor that has gone since the last check.
  const Chain now = walk(folder);
  if (!now.owner || now.owner->token != me.token) {
    ::unlink(claim.c_str());
    return false;
  }
  mine.rename_to(folder / FolderLock::file_name);
  for (const fs::path& name : now.claims) ::unlink(name.c_str());
  log(LogLevel::warning, fmt::format("took over the {} folder {} from {}, which has died",
                                     kind.name, folder.string(), words(*dead.owner)));
  return true;
}

bool take(const fs::path& folder, FolderLock::Kind kind, const LockOwner& me, const Written& mine) {
  if (mine.link_to(folder / FolderLock::file_name)) return true;
  const Chain chain = walk(folder);
  if (!chain.owner) return false;  // released meanwhile
  const double silence = silence_s(chain.file, mine.path());
  if (!is_dead(*chain.owner, me, silence)) refuse(folder, kind, *chain.owner, me, silence);
  return follow(folder, kind, chain, me, mine);
}

/// Whether `file` is this one; none if `inode` is 0.
bool is_still(const fs::path& file, std::uint64_t device, std::uint64_t inode) noexcept {
  struct stat info {};
  return inode != 0 && ::stat(file.c_str(), &info) == 0 && info.st_dev == device &&
         info.st_ino == inode;
}

}  // namespace

FolderLock::FolderLock(const fs::path& folder, Kind kind) : file_(folder / file_name) {
  constexpr int attempts = 200;
  constexpr auto pause = std::chrono::milliseconds(10);
  const LockOwner me = myself();
  for (int attempt = 0; attempt < attempts; ++attempt) {
    try {
      make_folder(folder);
      const Written mine(folder / fmt::format(".{}.{}", file_name, me.token), text_of(me));
      if (take(folder, kind, me, mine)) {
        struct stat info {};
        if (::stat(file_.c_str(), &info) != 0) throw FileError("examine", file_, errno);
        device_ = info.st_dev;
        inode_ = info.st_ino;
        return;
      }
    } catch (const FileError& error) {
      // Its owner moves the folder aside; if no folder can be made, it stays so.
      if (error.error_number() != ENOENT || attempt + 1 == attempts) throw;
    }
    std::this_thread::sleep_for(pause);
  }
  throw InputError(
      fmt::format("several processes are locking the {} folder {} at once; name another with {}.",
                  kind.name, folder.string(), kind.option));
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : file_(std::move(other.file_)),
      device_(other.device_),
      inode_(std::exchange(other.inode_, 0)) {}

std::optional<std::string> FolderLock::owner_of(const fs::path& folder) {
  const Chain chain = walk(folder);
  if (!chain.owner) return std::nullopt;
  struct stat then {};
  if (::stat(chain.file.c_str(), &then) != 0) return std::nullopt;  // released meanwhile
  const auto silence = static_cast<double>(std::time(nullptr) - then.st_mtim.tv_sec);
  if (is_dead(*chain.owner, myself(), silence)) return std::nullopt;
  return words(*chain.owner);
}

void FolderLock::refresh() const noexcept {
  if (is_held()) ::utimensat(AT_FDCWD, file_.c_str(), nullptr, 0);
}

bool FolderLock::is_held() const noexcept { return is_still(file_, device_, inode_); }

std::function<bool()> FolderLock::question() const {
  return [file = file_, device = device_, inode = inode_] { return is_still(file, device, inode); };
}

void FolderLock::release() noexcept {
  if (is_held()) ::unlink(file_.c_str());
  inode_ = 0;
}

}  // namespace lockstep
