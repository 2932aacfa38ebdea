#pragma once

namespace lockstep {

/// Labels receives that wait for whatever may come: nobody owes them a message.
inline constexpr const char* serving_label = "serving";

/// While it lives, the operations that this thread starts bear a name in the flight recorder and in
/// verdicts: with CallLabel label("bucket", 2) they read "all_reduce(sum) #17 (bucket 2, ...)".
class CallLabel {
 public:
  /// `what` is stored as a pointer, and its first 25 characters are shown; a negative number is not
  /// shown.
  explicit CallLabel(const char* what, int number = -1) noexcept;
  ~CallLabel();
  CallLabel(const CallLabel&) = delete;
  CallLabel& operator=(const CallLabel&) = delete;

  [[nodiscard]] const char* what() const noexcept { return what_; }
  [[nodiscard]] int number() const noexcept { return number_; }
  /// The innermost label of this thread; nullptr without one.
  [[nodiscard]] static const CallLabel* current() noexcept;

 private:
  const char* what_;
  int number_;
  const CallLabel* outer_;
};

}  // namespace lockstep
