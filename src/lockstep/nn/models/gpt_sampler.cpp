#include <lockstep/nn/models/gpt_sampler.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>

namespace lockstep::nn {
namespace {

// Separates samples from other users of the same seed: "TEXT" in the stream's upper half.
constexpr std::uint64_t text_stream = std::uint64_t{0x54455854} << 32U;

const SamplingOptions& checked(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    throw InputError("the temperature must be 0 or more, not " +
                     std::to_string(options.temperature));
  }
  if (options.top_k < 0) {
    throw InputError("top_k is a number of tokens (0: all); it cannot be " +
                     std::to_string(options.top_k));
  }
  if (!(options.top_p > 0.0 && options.top_p <= 1.0)) {
    throw InputError("top_p is a probability above 0 (1: all tokens); it cannot be " +
                     std::to_string(options.top_p));
  }
  return options;
}

/// The number of largest weights that make up `share` of the sum; at least one. The rest is the
/// most that stays within 1 - share when added from the smallest on, as in Hugging Face's
/// TopPLogitsWarper.
std::size_t nucleus(std::span<const double> weights, double share) {
  const double rest = (1.0 - share) * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t kept = weights.size();
  double sum = 0.0;
  while (kept > 1 && (sum += weights[kept - 1]) <= rest) --kept;
  return kept;
}

}  // namespace

GptSampler::GptSampler(std::shared_ptr<Gpt> model, std::span<const std::int64_t> text,
                       const SamplingOptions& options)
    : model_(expect_given("GptSampler", "the model", std::move(model))),
      options_(checked(options)),
      cache_(*model_),
      text_(text.begin(), text.end()),
      random_(options.seed, text_stream ^ options.number),
      order_(static_cast<std::size_t>(options.vocabulary > 0 ? options.vocabulary
                                                             : model_->options().vocabulary)) {
  if (options.vocabulary < 0 || options.vocabulary > model_->options().vocabulary) {
    throw InputError("the tokenizer has " + std::to_string(options.vocabulary) +
                     " tokens, more than the model's " +
                     std::to_string(model_->options().vocabulary) +
                     ": it belongs to another model");
  }
  if (text.empty()) throw InputError("the prompt needs at least one token");
  const std::int64_t vocabulary = model_->options().vocabulary;
  for (const std::int64_t token : text) {
    if (token >= 0 && token < vocabulary) continue;
    throw InputError("the prompt has a token " + std::to_string(token) +
                     ", outside the model's vocabulary of " + std::to_string(vocabulary));
  }
}

std::int64_t GptSampler::next() {
  const auto context = static_cast<std::size_t>(model_->options().context);
  if (text_.size() - seen_ > static_cast<std::size_t>(cache_.room())) {
    cache_.clear();
    seen_ = 0;
    const std::size_t kept =
        text_.size() > context ? std::max<std::size_t>(context / 2, 1) : text_.size();
    text_.erase(text_.begin(), text_.end() - static_cast<std::ptrdiff_t>(kept));
  }
  const auto fresh = std::span<const std::int64_t>(text_).subspan(seen_);
  const Device device = model_->parameters().front().data().device();
  const Tensor logits =
      model_->next_logits(Tensor::from(fresh, {std::ssize(fresh)}, device), cache_)
          .to(DType::f32)
          .to(Device{});
  seen_ = text_.size();
  const auto* values = static_cast<const float*>(logits.data());
  text_.push_back(choose({values, order_.size()}));
  return text_.back();
}

std::int64_t GptSampler::choose(std::span<const float> logits) {
  const auto likelier = [&](std::int64_t a, std::int64_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); }))
    throw Error(
        "the model's logits are NaN: has its training diverged, or are its weights not those of a "
        "trained model?");
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  const std::size_t all = order_.size();
  const std::size_t kept = options_.temperature == 0 ? 1
                           : options_.top_k > 0
                               ? std::min(static_cast<std::size_t>(options_.top_k), all)
                               : all;
  const auto end = order_.begin() + static_cast<std::ptrdiff_t>(kept);
  if (kept < all) std::ranges::nth_element(order_, end, likelier);
  std::sort(order_.begin(), end, likelier);
  if (kept == 1) return order_.front();
  weights_.clear();
  const double largest = logits[static_cast<std::size_t>(order_.front())];
  for (auto token = order_.begin(); token != end; ++token) {
    const double logit = logits[static_cast<std::size_t>(*token)];
    weights_.push_back(std::exp((logit - largest) / options_.temperature));
  }
  if (options_.top_p < 1.0) weights_.resize(nucleus(weights_, options_.top_p));
  double left = static_cast<double>(random_.uniform()) *
                std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::size_t chosen = 0;
  while (chosen + 1 < weights_.size() && left >= weights_[chosen]) left -= weights_[chosen++];
  return order_[chosen];
}

}  // namespace lockstep::nn
