#include <data/idx_files.hpp>

#include <stdlib.h>
#include <zlib.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace lockstep::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-data-XXXXXX").string();
  if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder: " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TemporaryFolder::write(const std::string& name, const Bytes& content) const {
  const auto file = path_ / name;
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(content.data()),
            static_cast<std::streamsize>(content.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + file.string());
  return file;
}

Bytes idx(const std::vector<std::uint32_t>& extents, const Bytes& data) {
  Bytes file{0, 0, 8, static_cast<std::uint8_t>(extents.size())};
  for (const auto extent : extents) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) {
      file.push_back(static_cast<std::uint8_t>(extent >> shift));
    }
  }
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

Bytes counting(std::size_t n) {
  Bytes bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return bytes;
}

Bytes gzip(const Bytes& content) {
  z_stream z{};
  if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  Bytes in = content;  // zlib wants it non-const
  Bytes out(deflateBound(&z, in.size()));
  z.next_in = in.data();
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = out.data();
  z.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  if (status != Z_STREAM_END) throw std::runtime_error("deflate failed");
  return out;
}

Bytes read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

void write_mnist_files(const TemporaryFolder& folder, std::uint32_t train, std::uint32_t test,
                       std::uint32_t height, std::uint32_t width) {
  const auto write = [&](const std::string& split, std::uint32_t n) {
    Bytes labels(n);
    for (std::size_t i = 0; i < n; ++i) labels[i] = static_cast<std::uint8_t>(i % 10);
    const auto pixels = counting(std::size_t{n} * height * width);
    folder.write(split + "-images-idx3-ubyte", idx({n, height, width}, pixels));
    folder.write(split + "-labels-idx1-ubyte.gz", gzip(idx({n}, labels)));
  };
  write("train", train);
  write("t10k", test);
}

testing::AssertionResult says(const std::string& message, const std::string& part) {
  if (message.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure()
         << '"' << part << "\" is not in the message \"" << message << '"';
}

}  // namespace lockstep::test
