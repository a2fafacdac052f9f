"""Texts with invisible characters: 60 that need theirs, and 40 that hide something in them."""

ENGLAND, SCOTLAND, WALES = (
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(each)) for each in f"gb{country}\x7f") for country in ("eng", "sct", "wls")
)


def tags(text: str) -> str:
    """Return tag characters that spell a text of ASCII."""
    return "".join(chr(0xE0000 + ord(each)) for each in text)


def selectors(text: str) -> str:
    """Return variation selectors that stand for the bytes of a text, as those who hide text in an emoji write it."""
    return "".join(chr(0xFE00 + byte if byte < 16 else 0xE0100 + byte - 16) for byte in text.encode())


def bits(text: str, zero: str, one: str) -> str:
    """Return two characters in the order of a text's bits."""
    return "".join(one if bit == "1" else zero for byte in text.encode() for bit in f"{byte:08b}")


STAY: dict[str, str] = {
    # Joiners.
    "Hindi": "उन्होंने कहा कि अल्\u200dमोड़ा के स्\u200dकूल अगले हफ़्ते खुलेंगे।",
    "Hindi, without a conjunct": "राष्ट्रपति ने शक्\u200cति और युक्\u200cति की बात की।",
    "Marathi": "वाऱ्\u200dयाचा वेग वाढल्याने दर्\u200dयात अडकलेल्या होड्या परत आल्या.",
    "Nepali": "सरकारले नयाँ नियम लागू गर्\u200dयो।",
    "Bengali": "র\u200d্যাবের অভিযানে তিনজনকে আটক করা হয়েছে।",
    "Assamese": "হঠাত্\u200d বৰষুণ আহিল।",
    "Malayalam": "അവന്\u200d പറഞ്ഞു, അവര്\u200d നാളെ വരുമെന്ന്.",
    "Malayalam, two joiners": "തമിഴ്\u200cനാട്ടില്\u200d നിന്നു വന്\u200d\u200cതോതില്\u200d വെള്ളം എത്തി.",
    "Sinhala": "ශ්\u200dරී ලංකාවේ ක්\u200dරියාකාරී සැලැස්ම ප්\u200dරකාශයට පත් විය.",
    "Kannada": "ರಾಜ್\u200cಕುಮಾರ್ ಅವರ ಸೂರ\u200d್ಯ ಚಿತ್ರ ಇಂದು ಬಿಡುಗಡೆಯಾಗಲಿದೆ.",
    "Telugu": "సాఫ్ట్\u200cవేర్ ఇంజినీర్\u200cగా పనిచేస్తున్నాడు.",
    "Tamil": "பக்\u200cஷிகள் கூட்டமாகப் பறந்தன.",
    "Persian": "می\u200cخواهم کتاب\u200cها را به خانه\u200cام ببرم.",
    "Persian with Latin words": "فایل PDF\u200cها را با API\u200cهای جدید بفرستید.",
    "Persian, an abbreviation": "این سند در سال ۱۴۰۲ ه\u200d.ش. ثبت شد.",
    "Persian, typed twice": "این کار انجام می\u200c\u200cشود.",
    "Sorani": "ئه\u200cو ده\u200cڵێت که\u200c باران ده\u200cبارێت.",
    "Urdu": "وزیرِ\u200cاعظم نے کہا کہ بجٹ کل پیش ہوگا۔",
    # Marks, isolates and embeddings of direction.
    "Arabic with a mark": "لغة C++\u200f أسرع من لغة C#\u200f في هذا الاختبار.",
    "Arabic with a letter mark": "الرصيد الحالي: \u061c-50 ريالاً.",
    "Arabic in an isolate": "The commit of \u2067محمد علي\u2069 repaired the build.",
    "Arabic with a number that a telephone embeds": "مكالمة من \u202a+966 50 123 4567\u202c\u200f قبل ساعة.",
    "Arabic, embedded": "Title: \u202bمرحبا بكم\u202c (draft)",
    "Hebrew with a mark": "השפה C#\u200f נוחה יותר מ-C++\u200f בפרויקט הזה.",
    "Hebrew with a telephone number": "התקשרו אל \u200e+972-50-123-4567\u200e לפרטים נוספים.",
    "Hebrew with isolates": "שלום \u2068David Cohen\u2069, יש לך \u20683\u2069 הודעות.\n\u202b64 סיביות\n",
    "Hebrew of the Bible": "וּבִירוּשָׁלַ\u034fִם",
    "English by a translator's library": "Hello, \u2068Jane\u2069! You have \u20683 new\u2069 messages.",
    # Words that no space parts.
    "Khmer": "ខ្ញុំ\u200bសោកស្ដាយ\u200bណាស់\u200bដែល\u200bខ្ញុំ\u200bគ្មាន\u200bអ្វី\u200bថ្វាយ\u200bទៅ\u200bទ្រង់",
    "Khmer, an address": "ផ្ទះ\u200b \u200bលេខ ១៩ និង ២០\u200b\u200b\u200bផ្លូវ ១០៦ រាជធានី \u200b(ភ្នំពេញ)",
    "Thai": "กรุงเทพ\u200bมหานคร\u200bเป็น\u200bเมืองหลวง\u200bของ\u200bประเทศไทย",
    "Lao": "ສະ\u200bບາຍ\u200bດີ\u200bຊາວ\u200bໂລກ!",
    "Burmese": "မြန်မာ\u200bနိုင်ငံ\u200bတွင်\u200bမိုး\u200bရွာ\u200bသည်။",
    "Tibetan": "བོད་\u200bཡིག་\u200bསློབ་\u200bསྦྱོང་།",
    "Javanese": "ꦲꦏ꧀ꦱꦫ\u200bꦗꦮ",
    "Japanese by phrases": "今日は\u200b良い\u200b天気です。\u200b明日も\u200b晴れるでしょう。",
    # Selectors and letters that are not drawn.
    "Japanese names": "葛\U000e0100飾区の渡邉\U000e0101さんと辻\U000e0101さんが神\ufe00社を訪れた。",
    "Chinese punctuation": "你好，\ufe01世界。\ufe00",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ ᠤᠯᠤᠰ ᠤᠨ ᠨᠠᠷ\u180eᠠ ᠬᠠᠭ\u180b\u180eᠠ ᠭ\u180bᠠᠯ",
    "Korean, old letters": "중세 국어의 \u115fᅡᆫ, \u115f\u1160ᆨ; 자모는 \u3164ㄱㅏ\u3164",
    # Emoji.
    "families": "👨\u200d👩\u200d👧\u200d👦 and 👩🏽\u200d💻 met a 🧑\u200d🚀 and a 🐻\u200d❄\ufe0f.",
    "hearts and flags": "❤\ufe0f ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈 🏴\u200d☠\ufe0f 👁\ufe0f\u200d🗨\ufe0f 🇧🇷",
    "skin, gender, direction": "🏃🏿\u200d♀\ufe0f\u200d➡\ufe0f 👍🏽 ⛹🏻\u200d♂\ufe0f",
    "England, Scotland, Wales": f"{ENGLAND} 1–2 {SCOTLAND}, {WALES} plays today.",
    "keycaps": "Press 1\ufe0f\u20e3, then #\ufe0f\u20e3 or *\ufe0f\u20e3.",
    "signs as text": "Call ☎\ufe0e or go back ↩\ufe0e; ▶\ufe0f play, ©\ufe0f 2026, ™\ufe0e.",
    # Notations and files.
    "a formula": "f\u2061(x) = 2\u2062π\u2062r, sin\u2061x\u2062y, T\u2063i, 3\u2064½",
    "sets": "A ∩\ufe00 B ⊆ C, room 10\ufe003",
    "LaTeX": "$\\int_0^1 x\u2009dx$ is 1\u202f/\u202f2,\u2003so 50\u00a0%\u3000of\u200aall.",
    "source code of pages": "def f():\n    pass\n\n\f\ndef g():\n\treturn '\\x1b[0m \\u202e'\n",
    "slides": "Agenda\vFirst item\vSecond item",
    "a table of a spreadsheet": "\ufeffname,qty\r\nÅsa,1\r\n",
    "a log": "10%\r20%\rdone\tok\r\n",
    "German": "Die Donau\u00addampf\u00adschiff\u00adfahrt endet; die Geschwindig\u00ad\nkeit sinkt.",
    "paths": "System.\u200bCollections.\u200bGeneric in wp-content/\u200buploads, as /** **\u200b/*.ts */",
    "spans": "He lived 1939–\u20601945 in Łódź.",
    "the beginning of a mail": "Your order is on its way \u200c \u200c\u00a0\u200c \u034f \ufeff \u034f ",
    "French": "Prix\u202f: 1\u202f234,50\u00a0€ — «\u00a0d’accord\u00a0»",
    "marks on letters": "Tiếng Việt, cafe\u0301, Z\u0351\u036b\u0343a\u0322l\u0334g\u0335o\u0337, ⠓\u2800⠊",
    "what is no character": "lone \ud83d half, own \ue0b0 sign, one\u2028two, \ufffc \ufffd",
}
"""Nothing is to change in them; by what they are."""

IGNORE = "ignore all previous"
CHANGE: dict[str, tuple[str, str, int]] = {
    # Tags.
    "tags": (f"Sunny.{tags(IGNORE)}", "Sunny.⟨tags: ignore all previous⟩", 19),
    "tags between words": (f"It {tags('run it')}rains", "It ⟨tags: run it⟩rains", 6),
    "a language tag": (f"{chr(0xE0001)}{tags('en')}Hi{chr(0xE007F)}", "⟨tags: \\x01en⟩Hi⟨tags: \\x7f⟩", 4),
    "a flag of no country": (f"\U0001f3f4{tags('ignore' + chr(127))}", "\U0001f3f4⟨tags: ignore\\x7f⟩", 7),
    "a flag of Texas": (f"\U0001f3f4{tags('ustx' + chr(127))}", "\U0001f3f4⟨tags: ustx\\x7f⟩", 5),
    "a flag without its end": (f"\U0001f3f4{tags('gbeng')}!", "\U0001f3f4⟨tags: gbeng⟩!", 5),
    "a flag and more": (f"{WALES}{tags('now')}", "\U0001f3f4⟨tags: gbwls\\x7fnow⟩", 9),
    "tags in Persian": (f"می\u200cخواهم{tags('no')}", "می\u200cخواهم⟨tags: no⟩", 2),
    # Direction.
    "an override in a file's name": ("invoice\u202egpj.exe", "invoice⟨U+202E⟩gpj.exe", 1),
    "an override in Hebrew": ("שלום \u202eabc\u202c עולם", "שלום ⟨U+202E⟩abc⟨U+202C⟩ עולם", 2),
    "a comment that is code": (
        "/*\u202e } \u2066if (isAdmin)\u2069 \u2066 begin admins only */",
        "/*⟨U+202E⟩ } \u2066if (isAdmin)\u2069 ⟨U+2066⟩ begin admins only */",
        2,
    ),
    "a string that is a comment": (
        'if level != "user\u202e \u2066// Check if admin\u2069 \u2066" {',
        'if level != "user⟨U+202E⟩ \u2066// Check if admin\u2069 ⟨U+2066⟩" {',
        2,
    ),
    "an early return": ("''' Subtract funds \u2067''' ;return", "''' Subtract funds ⟨U+2067⟩''' ;return", 1),
    "an early return, balanced": ("''' Pay \u2067''' ;return\u2069", "''' Pay ⟨U+2067⟩''' ;return⟨U+2069⟩", 2),
    "one that a mark turns": ("' Pay \u2068\u200f' ;end\u2069", "' Pay ⟨U+2068⟩⟨U+200F⟩' ;end⟨U+2069⟩", 3),
    "an isolate over two lines": ("\u2068one\ntwo\u2069", "⟨U+2068⟩one\ntwo⟨U+2069⟩", 2),
    "an isolate that the end of an embedding closes": ("\u2066a\u202c", "⟨U+2066⟩a⟨U+202C⟩", 2),
    "a path of Windows": ("\u202aC:\\Users\\me\\a.txt", "⟨U+202A⟩C:\\Users\\me\\a.txt", 1),
    "a thumbprint": ("\u200ea9 09 50 2d d8 2a", "⟨U+200E⟩a9 09 50 2d d8 2a", 1),
    "marks in a row": ("مرحبا\u200f\u200e\u200f\u200e!", "مرحبا⟨4 invisible characters⟩!", 4),
    # Controls.
    "colours of a terminal": ("\x1b[1;31mFAIL\x1b[0m a.py", "\\x1b[1;31mFAIL\\x1b[0m a.py", 2),
    "the title of a terminal": ("\x1b]0;run this\x07ok", "\\x1b]0;run this\\x07ok", 2),
    "a link of a terminal": ("\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\", "\\x1b]8;;http://x\\x1b\\a\\x1b]8;;\\x1b\\", 4),
    "a page of a manual": ("N\bNA\bA\x7f", "N\\x08NA\\x08A\\x7f", 3),
    "the padding of a file": (f"end{chr(0) * 512}", "end" + "\\x00" * 512, 512),
    "Latin-1 that was Windows'": ("don\x92t, a\x85b", "don⟨U+0092⟩t, a⟨U+0085⟩b", 2),
    # Zero width.
    "a word in two": (
        "ig\u200bnore this, ba\u2060sh, op\u200den",
        "ig⟨U+200B⟩nore this, ba⟨U+2060⟩sh, op⟨U+200D⟩en",
        3,
    ),
    "a word multiplied": ("ig\u2062nore", "ig⟨U+2062⟩nore", 1),
    "spaces at an end": ("Done.\u200b\u200b", "Done.⟨U+200B⟩⟨U+200B⟩", 2),
    "bits": (f"Hi{bits('ok', chr(0x2062), chr(0x2064))}.", "Hi⟨16 invisible characters⟩.", 16),
    "bits in Hindi": (f"नमस्ते{bits('ok', chr(0x200C), chr(0x200D))}।", "नमस्ते⟨16 invisible characters⟩।", 16),
    "bytes in an emoji": (f"😀{selectors(IGNORE)}", "😀⟨19 invisible characters⟩", 19),
    "selectors without a base": ("g\ufe01o \ufe0f5\ufe0f", "g⟨U+FE01⟩o ⟨U+FE0F⟩5⟨U+FE0F⟩", 3),
    "a selector that no name has": ("葛\U000e0150飾", "葛⟨U+E0150⟩飾", 1),
    "a file's beginning inside": ("\ufeffa\ufeffb", "\ufeffa⟨U+FEFF⟩b", 1),
    "letters of Mongolian in Latin": ("a\u180eb\u180bc", "a⟨U+180E⟩b⟨U+180B⟩c", 2),
    "a name of fillers": ("user \u3164\u3164 \uffa0", "user ⟨U+3164⟩⟨U+3164⟩ ⟨U+FFA0⟩", 3),
    "hyphens in a row": ("a\u00ad\u00ad\u00ad\u00adb x\u034fy", "a⟨4 invisible characters⟩b x⟨U+034F⟩y", 5),
    "annotations": ("\ufff9a\ufffab\ufffb", "⟨U+FFF9⟩a⟨U+FFFA⟩b⟨U+FFFB⟩", 3),
    "characters that are no more": ("a\u206ab\U000e0080c", "a⟨U+206A⟩b⟨U+E0080⟩c", 2),
}
"""What they are to be, and how many characters are hidden; by what hides."""
