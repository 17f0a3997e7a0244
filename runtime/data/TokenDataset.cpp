//===- TokenDataset.cpp - Sequences to train and to validate on -----------===//
#include "runtime/data/TokenDataset.h"

#include "runtime/data/Permutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ciuic::rt {
namespace {

/// Text is held in memory, two bytes a byte; more of it than this belongs
/// into a token file.
constexpr uint64_t maxTextBytes = uint64_t(4) << 30;

/// Token files up to this size are checked whole when they are opened.
constexpr uint64_t maxCheckedTokens = uint64_t(256) << 20;

/// Streams of the permutations. The validation split has a key of its own, so
/// that runs with different seeds hold back the same sequences.
constexpr uint64_t splitStream = hashName("validation split");
constexpr uint64_t epochStream = hashName("epoch order");

Status checkOptions(const TokenDataset::Options &options) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  if (options.sequenceLength < 1 || options.sequenceLength > limit)
    return Status::invalid(
        fmt::format("the sequence length is {}, expected 1 to {}",
                    options.sequenceLength, limit));
  if (options.vocabularySize < 1 || options.vocabularySize > limit)
    return Status::invalid(
        fmt::format("the vocabulary size is {}, expected 1 to {}",
                    options.vocabularySize, limit));
  if (!(options.validationShare >= 0 && options.validationShare < 1))
    return Status::invalid(
        fmt::format("the validation share is {}, expected at least 0 and less "
                    "than 1",
                    options.validationShare));
  return {};
}

} // namespace

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

Result<TokenDataset> TokenDataset::open(const std::vector<std::string> &paths,
                                        const Options &options) {
  CIUIC_TRY(checkOptions(options));
  if (paths.empty())
    return Status::invalid("no data: no file or folder was given");
  TokenDataset dataset;
  dataset.settings = options;
  std::string textPath, tokenPath; // The first of each kind.
  for (const std::string &path : paths) {
    CIUIC_TRY_ASSIGN(std::vector<std::string> files,
                     listFiles(path, dataset.fileCounts));
    for (const std::string &file : files) {
      bool named = file == path;
      Result<MappedFile> mapped = MappedFile::open(file);
      if (!mapped.ok()) {
        if (named)
          return mapped.takeStatus();
        ++dataset.fileCounts.unreadable;
        continue;
      }
      bool isTokens = TokenFile::hasMagic(mapped->bytes());
      uint64_t used = dataset.fileCounts.files;
      CIUIC_TRY(isTokens ? dataset.addTokenFile(file)
                         : dataset.addText(file, mapped->bytes(), named));
      if (dataset.fileCounts.files > used)
        (isTokens ? tokenPath : textPath) = file;
      if (!textPath.empty() && !tokenPath.empty())
        return Status::invalid(
            fmt::format("{} is text, but {} is a token file: train on one kind",
                        textPath, tokenPath));
    }
  }
  CIUIC_TRY(dataset.cut().during([&] {
    return fmt::format("reading the data in {}{}", paths.front(),
                       paths.size() > 1 ? " and other paths" : "");
  }));
  return dataset;
}

Status TokenDataset::addText(const std::string &path,
                             std::span<const std::byte> bytes, bool named) {
  std::string_view content(reinterpret_cast<const char *>(bytes.data()),
                           bytes.size());
  if (content.empty()) {
    ++fileCounts.empty;
    return {};
  }
  if (size_t offset = findNonText(content); offset != content.npos) {
    if (named)
      return Status::invalid(fmt::format(
          "{}: is neither a token file nor UTF-8 text: byte 0x{:02x} at offset "
          "{}",
          path, static_cast<unsigned>(bytes[offset]), offset));
    ++fileCounts.notText;
    return {};
  }
  if (settings.vocabularySize < ByteVocabulary::size)
    return Status::invalid(
        fmt::format("{}: text is read with a vocabulary of {}, the model has "
                    "{}: enlarge its vocabulary, or make a token file",
                    path, ByteVocabulary::size, settings.vocabularySize));
  fileCounts.bytes += content.size();
  if (fileCounts.bytes > maxTextBytes)
    return Status::invalid(
        fmt::format("{}: more than {} bytes of text: make a token file, which "
                    "is mapped rather than read",
                    path, maxTextBytes));
  ++fileCounts.files;
  appendDocument(content, text);
  return {};
}

Status TokenDataset::addTokenFile(const std::string &path) {
  CIUIC_TRY_ASSIGN(TokenFile file, TokenFile::open(path));
  auto vocabulary = static_cast<uint64_t>(settings.vocabularySize);
  if (file.vocabularySize() > vocabulary)
    return Status::invalid(
        fmt::format("{}: has a vocabulary of {}, the model has {}", path,
                    file.vocabularySize(), vocabulary));
  if (file.tokenCount() <= maxCheckedTokens)
    CIUIC_TRY(file.checkAll(file.vocabularySize()));
  ++fileCounts.files;
  tokenFiles.push_back(std::move(file));
  return {};
}

Status TokenDataset::cut() {
  auto length = static_cast<uint64_t>(settings.sequenceLength);
  size_t streams = isText() ? 1 : tokenFiles.size();
  uint64_t longest = 0;
  for (size_t stream = 0; stream < streams; ++stream) {
    uint64_t n = streamTokens(stream);
    longest = std::max(longest, n);
    tokens += n;
    firstSequence.push_back(total);
    // Every token but the first is a label once.
    total += n < 2 ? 0 : (n - 2) / length + 1;
  }
  firstSequence.push_back(total);
  std::string warning = fileCounts.warning();
  if (!warning.empty())
    warning = " (" + warning + ")";
  if (tokens == 0)
    return Status::invalid(fmt::format("no data was found{}", warning));
  if (longest < length + 1)
    return Status::invalid(
        fmt::format("the data is too short: {} tokens, one sequence of length "
                    "{} needs {}{}",
                    longest, length, length + 1, warning));

  double share = settings.validationShare;
  if (share > 0)
    heldBack = std::max<uint64_t>(
        1, static_cast<uint64_t>(share * static_cast<double>(total) + 0.5));
  if (heldBack >= total)
    return Status::invalid(
        fmt::format("of {} sequences a validation share of {} leaves none to "
                    "train on",
                    total, share));
  if (!settings.shuffle && heldBack > 0) {
    for (uint64_t i = 0; i < heldBack; ++i)
      trainedBefore.push_back(sequenceAt(Split::Validation, 0, i));
    std::sort(trainedBefore.begin(), trainedBefore.end());
    for (uint64_t i = 0; i < heldBack; ++i)
      trainedBefore[i] -= i;
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

uint64_t TokenDataset::streamTokens(size_t stream) const {
  return isText() ? text.size() : tokenFiles[stream].tokenCount();
}

uint64_t TokenDataset::sequenceAt(Split split, uint64_t epoch,
                                  uint64_t index) const {
  // One fixed permutation sorts all sequences into those held back, which come
  // first, and those trained on.
  Permutation divide(total, /*seed=*/0, splitStream);
  if (split == Split::Validation)
    return divide(index);
  if (!settings.shuffle) {
    // Skips those held back before the place that index comes to.
    auto skipped =
        std::upper_bound(trainedBefore.begin(), trainedBefore.end(), index);
    return index + static_cast<uint64_t>(skipped - trainedBefore.begin());
  }
  Permutation order(total - heldBack, settings.seed, epochStream + epoch);
  return divide(heldBack + order(index));
}

std::pair<size_t, uint64_t> TokenDataset::locate(uint64_t sequence) const {
  // The last stream that begins at or before it; empty ones begin where the
  // next does and are passed over.
  auto next =
      std::upper_bound(firstSequence.begin(), firstSequence.end(), sequence);
  auto stream = static_cast<size_t>(next - firstSequence.begin()) - 1;
  return {stream, (sequence - firstSequence[stream]) *
                      static_cast<uint64_t>(settings.sequenceLength)};
}

int64_t TokenDataset::labelCount(uint64_t sequence) const {
  auto [stream, begin] = locate(sequence);
  uint64_t rest = streamTokens(stream) - 1 - begin;
  return static_cast<int64_t>(
      std::min(rest, static_cast<uint64_t>(settings.sequenceLength)));
}

Status TokenDataset::read(uint64_t sequence, int32_t *inputs,
                          int32_t *labels) const {
  int64_t count = labelCount(sequence);
  auto [stream, begin] = locate(sequence);
  if (isText()) {
    for (int64_t i = 0; i < count; ++i) {
      inputs[i] = text[begin + static_cast<uint64_t>(i)];
      labels[i] = text[begin + static_cast<uint64_t>(i) + 1];
    }
  } else {
    const TokenFile &file = tokenFiles[stream];
    uint64_t limit = file.vocabularySize();
    auto n = static_cast<uint64_t>(count);
    CIUIC_TRY(file.read(begin, n, limit, inputs));
    CIUIC_TRY(file.read(begin + 1, n, limit, labels));
  }
  std::fill(inputs + count, inputs + settings.sequenceLength, padToken());
  std::fill(labels + count, labels + settings.sequenceLength, ignoredLabel);
  return {};
}

} // namespace ciuic::rt
