#include <comm/nccl/mailboxes.hpp>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stdexcept>

namespace lockstep::test {

namespace fs = std::filesystem;

namespace {

/// Mailboxes that exist when the process ends.
struct Folders {
  std::mutex mutex;
  std::vector<std::string> made;

  ~Folders() {
    std::error_code ignored;
    for (const std::string& folder : made) fs::remove_all(folder, ignored);
  }
  void add(const std::string& folder) {
    const std::lock_guard lock(mutex);
    made.push_back(folder);
  }
  static Folders& instance() {
    static Folders folders;
    return folders;
  }
};

}  // namespace

Mailboxes Mailboxes::make() {
  std::string folder = "/dev/shm/lockstep-nccl-XXXXXX";
  if (!mkdtemp(folder.data())) throw std::runtime_error("no folder in /dev/shm");
  Folders::instance().add(folder);
  return Mailboxes(std::move(folder));
}

Mailboxes Mailboxes::beside(const std::string& name) const {
  Mailboxes other(folder_ + "-" + name);
  fs::create_directory(other.folder_);
  Folders::instance().add(other.folder_);
  return other;
}

void Mailboxes::put(const std::string& name, std::span<const std::byte> bytes) const {
  const std::string unfinished = path(name) + ".new";
  {
    std::ofstream file(unfinished, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) throw std::runtime_error("cannot write " + unfinished);
  }
  fs::rename(unfinished, path(name));
}

bool Mailboxes::has(const std::string& name) const noexcept {
  return access(path(name).c_str(), F_OK) == 0;
}

std::vector<std::byte> Mailboxes::read(const std::string& name) const {
  std::vector<std::byte> bytes(fs::file_size(path(name)));
  std::ifstream file(path(name), std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot read " + path(name));
  return bytes;
}

void Mailboxes::forget(const std::string& name) const noexcept { unlink(path(name).c_str()); }

void Mailboxes::leave(int rank, int ranks) const noexcept {
  try {
    put("left." + std::to_string(rank), {});
  } catch (const std::exception&) {
    return;  // its maker has removed it
  }
  for (int r = 0; r < ranks; ++r) {
    if (!has("left." + std::to_string(r))) return;
  }
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace lockstep::test
