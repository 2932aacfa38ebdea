#include <lockstep/io/hdf5.hpp>

#include <hdf5.h>

#include <type_traits>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

static_assert(std::is_same_v<hid_t, Hdf5Id> && std::is_same_v<herr_t, int>,
              "io/hdf5.hpp hands out hid_t as a 64-bit integer");

std::recursive_mutex& mutex() {
  static std::recursive_mutex instance;
  return instance;
}

/// The stack runs from the API call to the cause; each later entry overwrites the one before.
herr_t keep_description(unsigned, const H5E_error2_t* entry, void* text) {
  if (entry->desc && *entry->desc) *static_cast<std::string*>(text) = entry->desc;
  return 0;
}

std::string innermost_error() {
  std::string text;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_description, &text) < 0 || text.empty())
    text = "no reason given";
  H5Eclear2(H5E_DEFAULT);
  return text;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : guard_(mutex()) {
  H5Eget_auto2(H5E_DEFAULT, &print_, &print_context_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Lock::~Hdf5Lock() { H5Eset_auto2(H5E_DEFAULT, print_, print_context_); }

Hdf5Id hdf5_check(Hdf5Id status, const std::string& what) {
  if (status < 0) throw Error("HDF5 cannot " + what + ": " + innermost_error());
  return status;
}

Hdf5Handle::Hdf5Handle(Hdf5Handle&& other) noexcept
    : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}

Hdf5Handle& Hdf5Handle::operator=(Hdf5Handle&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(closer_, other.closer_);
  return *this;
}

Hdf5Handle::~Hdf5Handle() {
  if (id_ < 0) return;
  const Hdf5Lock lock;
  closer_(id_);
}

void Hdf5Handle::close(const std::string& what) {
  hdf5_check(closer_(std::exchange(id_, -1)), what);
}

}  // namespace lockstep
