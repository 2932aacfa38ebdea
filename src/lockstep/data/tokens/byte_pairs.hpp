#pragma once
#include <filesystem>
#include <memory>

#include <lockstep/data/tokens/tokenizer.hpp>

namespace lockstep {

/// GPT-2's byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909, over bytes; Radford et al.
/// 2019, section 2.2) from its two public files: vocab.json, {"token": number}, and merges.txt, one
/// pair per line in order of priority. "<|endoftext|>" within a text is ordinary text. Throws
/// InputError for files that are missing, damaged or have more than 65536 tokens.
[[nodiscard]] std::unique_ptr<Tokenizer> load_byte_pairs(const std::filesystem::path& folder);

}  // namespace lockstep
