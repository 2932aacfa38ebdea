#include <lockstep/io/folder_lock.hpp>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/io/file.hpp>

namespace {
bool links_are_refused = false;  // as on file systems without links
}  // namespace

// This definition replaces the C library's in the whole program.
extern "C" int link(const char* from, const char* to) noexcept {
  if (!links_are_refused) return ::linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
  errno = EPERM;
  return -1;
}

namespace lockstep {
namespace {

namespace lock_fs = std::filesystem;

class FolderLockTest : public testing::Test {
 protected:
  FolderLockTest()
      : folder_(lock_fs::path(testing::TempDir()) / ("lockstep-lock-" + std::to_string(getpid()))) {
    lock_fs::remove_all(folder_);
    lock_fs::create_directories(folder_);
  }
  ~FolderLockTest() override {
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_RESTART_COUNT");
    lock_fs::remove_all(folder_);
  }

  [[nodiscard]] lock_fs::path file() const { return folder_ / FolderLock::file_name; }

  /// The lock of a run on another machine, with a last heartbeat of this age.
  void elsewhere(int silent_s, const std::string& more = "") const {
    std::ofstream(file()) << "host node7\nmachine another one\nprocess 4711\nprocess_start 1\n"
                          << "job Slurm job 33\n"
                          << more << "since 2026-01-01 00:00:00 UTC\ntoken abc\n";
    const std::time_t then = std::time(nullptr) - silent_s;
    const timespec times[2] = {{then, 0}, {then, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, file().c_str(), times, 0), 0);
  }

  /// The reason for refusing the folder; empty if it is not refused.
  [[nodiscard]] std::string refusal() const {
    try {
      const FolderLock lock(folder_);
      return "";
    } catch (const InputError& error) {
      return error.what();
    }
  }

  /// A process that does `work` and ends with its result.
  template <class Work>
  static pid_t process(const Work& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work());
    return child;
  }
  static int end_of(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  /// Leaves the lock of a dead process.
  void dead_owner() const {
    const pid_t child = process([&] {
      FolderLock lock(folder_);
      raise(SIGKILL);
      return 0;
    });
    ASSERT_EQ(end_of(child), 128 + SIGKILL);
    ASSERT_TRUE(lock_fs::exists(file()));
  }

  [[nodiscard]] std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& entry : lock_fs::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    return names;
  }

  lock_fs::path folder_;
};

TEST_F(FolderLockTest, IsGivenToOneAtATimeAndRefusedWithTheOwnersName) {
  {
    FolderLock lock(folder_);
    EXPECT_TRUE(lock.is_held());
    const std::string why = refusal();
    EXPECT_NE(why.find("process " + std::to_string(getpid())), std::string::npos) << why;
    EXPECT_NE(why.find(folder_.string()), std::string::npos) << why;
    EXPECT_TRUE(lock.is_held());
    FolderLock moved = std::move(lock);
    EXPECT_TRUE(moved.is_held());
  }
  EXPECT_EQ(left(), std::vector<std::string>{});
  EXPECT_EQ(refusal(), "");
}

TEST_F(FolderLockTest, OwnerOfIsTheLivingOneAndChangesNothing) {
  EXPECT_FALSE(FolderLock::owner_of(folder_));
  {
    const FolderLock lock(folder_);
    const auto owner = FolderLock::owner_of(folder_);
    ASSERT_TRUE(owner);
    EXPECT_NE(owner->find("process " + std::to_string(getpid())), std::string::npos) << *owner;
    EXPECT_TRUE(lock.is_held());
  }
  EXPECT_FALSE(FolderLock::owner_of(folder_));
  dead_owner();
  EXPECT_FALSE(FolderLock::owner_of(folder_));
  EXPECT_EQ(left(), std::vector<std::string>{FolderLock::file_name});
}

TEST_F(FolderLockTest, OfADeadProcessIsTakenOver) {
  for (const bool refused : {false, true}) {
    links_are_refused = refused;
    dead_owner();
    {
      const FolderLock lock(folder_);
      EXPECT_TRUE(lock.is_held());
      EXPECT_NE(refusal(), "");
      EXPECT_EQ(left(), std::vector<std::string>{FolderLock::file_name});
    }
    EXPECT_EQ(left(), std::vector<std::string>{});
  }
  links_are_refused = false;
}

TEST_F(FolderLockTest, OfALaterProcessWithTheSameNumberIsNotTheDeadOnes) {
  dead_owner();
  std::ifstream in(file());
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto at = text.find("process ");
  text.replace(at, text.find('\n', at) - at,
               "process 1");  // alive, but started at another time
  std::ofstream(file()) << text;
  EXPECT_EQ(refusal(), "");
}

TEST_F(FolderLockTest, OfAnotherMachineIsTakenOverOnceItIsSilentForLong) {
  elsewhere(10);
  const std::string why = refusal();
  EXPECT_NE(why.find("process 4711 on node7 (Slurm job 33; since 2026-01-01"), std::string::npos)
      << why;
  EXPECT_NE(why.find("300 s"), std::string::npos) << why;
  elsewhere(static_cast<int>(FolderLock::dead_after.count()) - 30);
  EXPECT_NE(refusal(), "");
  elsewhere(static_cast<int>(FolderLock::dead_after.count()) + 5);
  EXPECT_EQ(refusal(), "");
}

TEST_F(FolderLockTest, OfTheSameSlurmJobsEarlierStartIsTakenOverAtOnce) {
  elsewhere(1, "slurm_job 33\nslurm_start 1\n");
  setenv("SLURM_JOB_ID", "33", 1);
  setenv("SLURM_RESTART_COUNT", "1", 1);
  EXPECT_NE(refusal(), "") << "the same start: two steps of one job";
  setenv("SLURM_RESTART_COUNT", "2", 1);
  EXPECT_EQ(refusal(), "");
  elsewhere(1, "slurm_job 32\nslurm_start 1\n");
  EXPECT_NE(refusal(), "") << "another job";
}

TEST_F(FolderLockTest, ThatCannotBeReadIsRespectedUntilItIsOld) {
  elsewhere(10);
  std::ofstream(file()) << "\x7f\x00rubbish";
  EXPECT_NE(refusal().find("cannot be read"), std::string::npos);
  lock_fs::last_write_time(file(), lock_fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(refusal(), "");
}

TEST_F(FolderLockTest, ThatIsStillBeingWrittenIsReadAgain) {
  std::ofstream{file()};  // empty
  std::thread writer([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    elsewhere(10);
  });
  EXPECT_NE(refusal().find("process 4711 on node7"), std::string::npos);
  writer.join();
}

TEST_F(FolderLockTest, WhoseFolderIsMovedAsideWhileItIsReadIsNobodys) {
  std::ofstream{file()};
  std::thread owner([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    lock_fs::remove(file());
  });
  EXPECT_EQ(refusal(), "");
  owner.join();
}

TEST_F(FolderLockTest, IsLostWithItsFolderAndReleasesNoOtherOnes) {
  FolderLock lock(folder_);
  const lock_fs::path elsewhere = folder_.string() + ".moved";
  lock_fs::remove_all(elsewhere);
  lock_fs::rename(folder_, elsewhere);
  EXPECT_FALSE(lock.is_held());
  const FolderLock next(folder_);
  EXPECT_FALSE(lock.is_held());
  lock.refresh();
  lock.release();
  EXPECT_TRUE(next.is_held());
  lock_fs::remove_all(elsewhere);
}

TEST_F(FolderLockTest, IsShownToBeAliveByRefresh) {
  const FolderLock lock(folder_);
  const auto old = lock_fs::file_time_type::clock::now() - std::chrono::hours(1);
  lock_fs::last_write_time(file(), old);
  lock.refresh();
  EXPECT_GT(lock_fs::last_write_time(file()), old + std::chrono::minutes(50));
}

// Several processes want a dead owner's folder; each that gets it holds it for a moment.
TEST_F(FolderLockTest, OfADeadProcessGoesToOneOfManySuccessors) {
  constexpr int rounds = 40, processes = 6;
  int won = 0;
  for (int round = 0; round < rounds; ++round) {
    links_are_refused = round % 4 == 3;
    dead_owner();
    std::vector<pid_t> children;
    for (int i = 0; i < processes; ++i) {
      children.push_back(process([&] {
        std::optional<FolderLock> lock;
        try {
          lock.emplace(folder_);
        } catch (const std::exception&) {
          return 1;
        }
        // A process that comes while another holds it finds the other's mark.
        const int mark = ::open((folder_ / "mark").c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (mark < 0 || !lock->is_held()) return 2;
        ::close(mark);
        usleep(2000);
        ::unlink((folder_ / "mark").c_str());
        return lock->is_held() ? 0 : 3;
      }));
    }
    int owners = 0;
    for (const pid_t child : children) {
      const int end = end_of(child);
      EXPECT_TRUE(end == 0 || end == 1) << end << " in round " << round;
      if (end == 0) ++owners;
    }
    EXPECT_GE(owners, 1) << "round " << round;
    won += owners;
    EXPECT_EQ(left(), std::vector<std::string>{}) << "round " << round;
  }
  EXPECT_LT(won, rounds * processes) << "nobody met anybody";
  links_are_refused = false;
}

// mkdir() gives ENOENT there, as it does for a moment while a folder is moved aside.
TEST(FolderLockWithoutAFolder, SaysThatNoneCanBeMade) {
  try {
    const FolderLock lock("/proc/lockstep");
    FAIL() << "a folder in /proc";
  } catch (const FileError& error) {
    EXPECT_EQ(error.error_number(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("/proc/lockstep"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
