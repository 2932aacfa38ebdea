#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace lockstep {

/// The first bytes of a file that HDF5 wrote from its beginning.
inline constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";

/// HDF5's hid_t, to keep hdf5.h inside .cpp files.
using Hdf5Id = std::int64_t;

/// Holds the process's one lock around HDF5, which is not thread-safe: every call of HDF5 needs it.
/// May be nested. While it lives HDF5 prints no errors; afterwards error printing is restored for
/// other users of HDF5 in this process.
class Hdf5Lock {
 public:
  Hdf5Lock();
  ~Hdf5Lock();
  Hdf5Lock(const Hdf5Lock&) = delete;
  Hdf5Lock& operator=(const Hdf5Lock&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> guard_;
  void* print_context_ = nullptr;
  int (*print_)(Hdf5Id stack, void* context) = nullptr;
};

/// Throws Error "HDF5 cannot <what>: <innermost line of its error stack>" for a negative status or
/// identifier; else returns it. Example for `what`: "create data set /model/fc1.weight". Under
/// Hdf5Lock.
Hdf5Id hdf5_check(Hdf5Id status, const std::string& what);

/// An owned HDF5 object: file, data set, space, type, attribute or property list.
class Hdf5Handle {
 public:
  /// Takes `id`, which `closer` (H5Fclose, H5Dclose, ...) will close; throws as hdf5_check does.
  Hdf5Handle(Hdf5Id id, int (*closer)(Hdf5Id), const std::string& what)
      : id_(hdf5_check(id, what)), closer_(closer) {}
  Hdf5Handle(Hdf5Handle&& other) noexcept;
  Hdf5Handle& operator=(Hdf5Handle&& other) noexcept;
  ~Hdf5Handle();

  [[nodiscard]] Hdf5Id id() const noexcept { return id_; }
  /// Closes now and throws on failure, which a destructor would have to swallow: for files. Under
  /// Hdf5Lock.
  void close(const std::string& what);

 private:
  Hdf5Id id_;
  int (*closer_)(Hdf5Id);
};

}  // namespace lockstep
