#pragma once
#include <chrono>
#include <thread>

namespace lockstep::test {

/// A result that takes its caller a while to read.
struct SlowToRead {
  int value = 0;
  template <class Archive>
  void save(Archive& archive) const {
    archive(value);
  }
  template <class Archive>
  void load(Archive& archive) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    archive(value);
  }
};

}  // namespace lockstep::test
