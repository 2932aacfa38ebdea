#include <lockstep/autograd/pass_followers.hpp>

#include <algorithm>

#include <lockstep/autograd/backward_pass.hpp>

namespace lockstep {

bool PassFollowers::has(const PassObserver& observer) const {
  return std::ranges::find(followers_, &observer, &Follower::observer) != followers_.end();
}

void PassFollowers::tell_of_pass(PassObserver& observer, bool is_reached, const PassOptions& pass) {
  Follower& follower =
      followers_.emplace_back(Follower{.observer = &observer, .is_reached = is_reached});
  follower.answer = observer.pass_begins(pass.roots, pass.gradients, pass.seed);
  redirects_ = redirects_ || follower.answer.sink;
}

void PassFollowers::leaf_is_reached(const Variable& leaf, const PassOptions& pass) {
  for (const detail::GradHookEntry& hook : leaf.record()->grad_hooks) {
    if (hook.observer && !has(*hook.observer)) tell_of_pass(*hook.observer, true, pass);
  }
}

void PassFollowers::graph_is_known(const PassOptions& pass) {
  if (pass.observer && !has(*pass.observer)) tell_of_pass(*pass.observer, false, pass);
  const auto is_out = [](const Follower& follower) { return !follower.answer.follows; };
  std::erase_if(followers_, is_out);
  std::ranges::sort(followers_, {},
                    [](const Follower& follower) { return follower.observer->number(); });
  for (std::size_t i = 0; i < followers_.size(); ++i) {
    followers_[i].observer->leaves_are_known(i == 0, followers_[i].is_reached);
  }
}

void PassFollowers::tell_when_over(PassObserver& observer) {
  if (has(observer)) return;
  followers_.push_back(
      {.observer = &observer, .answer = {.follows = true}, .keeps = observer.owner()});
}

GradSink* PassFollowers::sink_of(const Variable& leaf) const {
  for (const Follower& follower : followers_) {
    if (follower.answer.sink && follower.answer.sink->takes(leaf)) return follower.answer.sink;
  }
  return nullptr;
}

void PassFollowers::pass_is_over() {
  redirects_ = false;
  if (!followers_.empty() && followers_.back().keeps) {  // the pass continues through this follower
    const auto unreached = std::ranges::find_if(
        followers_, [](const Follower& one) { return !one.is_reached && !one.keeps; });
    if (unreached != followers_.end())
      std::rotate(unreached, unreached + 1,
                  followers_.end());  // one at most: PassOptions::observer
  }
  for (; !followers_.empty(); followers_.erase(followers_.begin())) {
    PassObserver& observer = *followers_.front().observer;
    try {
      observer.pass_is_over();
    } catch (...) {
      followers_.erase(followers_.begin());
      pass_has_failed();
      throw;
    }
  }
}

void PassFollowers::pass_has_failed() noexcept {
  redirects_ = false;
  for (const Follower& follower : followers_) {
    if (follower.answer.follows) follower.observer->pass_has_failed();
  }
  followers_.clear();
}

}  // namespace lockstep
