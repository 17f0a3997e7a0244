#!/usr/bin/env python3
"""Writes a token file, which ciuicc maps as training data.

  tools/tokenize_dataset.py -t deepseek-llm-7b/ -o train.tok corpus/ more.jsonl

Inputs are UTF-8 text files (one document each), JSON lines (one document a
line, in the field --field) and folders of both, read in sorted order. The
tokenizer is a tokenizer.json or a folder with one (package `tokenizers`), a
folder or hub name that `transformers` knows, or --bytes: the byte-level
vocabulary that ciuicc uses for text. Documents are separated by the end token.

The file, little-endian: "CIUICTOK", uint32 version 1, uint32 bytes a token
(2 or 4), uint64 vocabulary size, uint64 token count, 32 zero bytes, tokens.
"""
import argparse
import array
import json
import os
import struct
import sys


def load_tokenizer(args):
    """Returns (text -> list of ids, vocabulary size)."""
    if args.bytes:
        return lambda text: [256, *text.encode(), 257], 259
    file, end = args.tokenizer, args.end_token
    if os.path.isdir(file):
        config = os.path.join(file, "tokenizer_config.json")
        if not end and os.path.isfile(config):
            with open(config, encoding="utf-8") as stream:
                end = json.load(stream).get("eos_token")
            end = end.get("content") if isinstance(end, dict) else end
        file = os.path.join(file, "tokenizer.json")
    if os.path.isfile(file):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(file)
        size = tokenizer.get_vocab_size(with_added_tokens=True)
        lookup = tokenizer.token_to_id
        encode = lambda text: tokenizer.encode(text, add_special_tokens=False).ids
    else:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
        size = len(tokenizer)
        end = end or tokenizer.eos_token
        lookup = tokenizer.convert_tokens_to_ids
        encode = lambda text: tokenizer.encode(text, add_special_tokens=False)
    # DeepSeek's, Llama's, GPT-2's and Qwen's, and Llama 3's.
    known = ["<｜end▁of▁sentence｜>", "</s>", "<|endoftext|>", "<|end_of_text|>"]
    names = [end] if end else known
    ids = [i for i in map(lookup, names) if i is not None]
    if not ids:
        sys.exit(f"{args.tokenizer}: no end token among {names}: give --end-token")
    return lambda text: [*encode(text), ids[0]], size


def documents(path, field):
    """Yields the texts below a path, in sorted order."""
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            inner = os.path.join(path, name)
            # Links may lead in circles.
            if not name.startswith(".") and not os.path.islink(inner):
                yield from documents(inner, field)
        return
    with open(path, encoding="utf-8", newline="") as file:
        if not path.endswith((".jsonl", ".json")):
            yield file.read()
            return
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    text = json.loads(line)[field]
                    if not isinstance(text, str):
                        raise TypeError(f"found {type(text).__name__}")
                except (ValueError, KeyError, TypeError) as error:
                    sys.exit(f"{path}:{number}: expected an object with a text "
                             f"{field!r}: {error!r}")
                yield text


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("-t", "--tokenizer", help="tokenizer.json, a folder, or a hub name")
    kind.add_argument("--bytes", action="store_true",
                      help="the byte-level vocabulary")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--field", default="text", help="the text's key in JSON lines")
    parser.add_argument("--end-token",
                        help="put after each document (default: the tokenizer's)")
    parser.add_argument("--vocabulary", type=int,
                        help="the model's, if larger than the tokenizer's")
    parser.add_argument("inputs", nargs="+")
    args = parser.parse_args()

    encode, size = load_tokenizer(args)
    size = max(size, args.vocabulary or 0)
    width, code = (2, "H") if size <= 65536 else (4, "I")
    count, temporary, path = 0, args.output + ".tmp", args.output
    try:
        with open(temporary, "wb") as out:
            out.write(bytes(64))
            for path in args.inputs:
                for text in documents(path, args.field):
                    ids = array.array(code, encode(text))
                    if sys.byteorder == "big":
                        ids.byteswap()
                    ids.tofile(out)
                    count += len(ids)
            out.seek(0)
            out.write(struct.pack("<8sIIQQ", b"CIUICTOK", 1, width, size, count))
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, args.output)
    except (OSError, UnicodeDecodeError, OverflowError) as error:
        sys.exit(f"{path}: {error}")
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    print(f"{args.output}: {count} tokens of {width} bytes, vocabulary {size}")


if __name__ == "__main__":
    main()
