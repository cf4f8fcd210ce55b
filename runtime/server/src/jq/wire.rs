//! What goes between the server and a child that runs a filter: lengths and bytes, over two pipes.

use std::io::{Error, ErrorKind, Read, Result, Write};

use bytes::Bytes;

/// Nothing that either side sends is longer.
const LONGEST: usize = 2 * 1024 * 1024 * 1024 - 1;

fn write_bytes(out: &mut impl Write, bytes: &[u8]) -> Result<()> {
    let len = u32::try_from(bytes.len()).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
    out.write_all(&len.to_be_bytes())?;
    out.write_all(bytes)
}

fn read_number(from: &mut impl Read) -> Result<usize> {
    let mut number = [0; 4];
    from.read_exact(&mut number)?;
    Ok(u32::from_be_bytes(number) as usize)
}

fn read_bytes(from: &mut impl Read) -> Result<Vec<u8>> {
    let len = read_number(from)?;
    if len > LONGEST {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub fn write_filter(out: &mut impl Write, filter: &str) -> Result<()> {
    write_bytes(out, filter.as_bytes())?;
    out.flush()
}

pub fn read_filter(from: &mut impl Read) -> Result<String> {
    String::from_utf8(read_bytes(from)?).map_err(|_| ErrorKind::InvalidData.into())
}

/// What the check of a filter came to: what a payload must hold, or what is wrong with the filter.
pub type Checked = std::result::Result<Vec<Vec<u8>>, String>;

pub fn write_checked(out: &mut impl Write, checked: &Checked) -> Result<()> {
    match checked {
        Ok(needles) => {
            out.write_all(&[1])?;
            out.write_all(&(needles.len() as u32).to_be_bytes())?;
            for needle in needles {
                write_bytes(out, needle)?;
            }
        }
        Err(why) => {
            out.write_all(&[0])?;
            write_bytes(out, why.as_bytes())?;
        }
    }
    out.flush()
}

pub fn read_checked(from: &mut impl Read) -> Result<Checked> {
    let mut good = [0];
    from.read_exact(&mut good)?;
    if good == [1] {
        let count = read_number(from)?;
        return (0..count).map(|_| read_bytes(from)).collect::<Result<Vec<_>>>().map(Ok);
    }
    Ok(Err(String::from_utf8_lossy(&read_bytes(from)?).into_owned()))
}

pub fn write_payloads(out: &mut impl Write, payloads: &[Bytes]) -> Result<()> {
    out.write_all(&(payloads.len() as u32).to_be_bytes())?;
    for payload in payloads {
        write_bytes(out, payload)?;
    }
    out.flush()
}

/// The next payloads; none when the server has gone.
pub fn read_payloads(from: &mut impl Read) -> Result<Option<Vec<Vec<u8>>>> {
    let count = match read_number(from) {
        Ok(count) => count,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    (0..count).map(|_| read_bytes(from)).collect::<Result<_>>().map(Some)
}

pub fn write_passes(out: &mut impl Write, passes: &[bool]) -> Result<()> {
    let bytes: Vec<u8> = passes.iter().map(|passes| u8::from(*passes)).collect();
    out.write_all(&bytes)?;
    out.flush()
}

pub fn read_passes(from: &mut impl Read, count: usize) -> Result<Vec<bool>> {
    let mut bytes = vec![0; count];
    from.read_exact(&mut bytes)?;
    Ok(bytes.into_iter().map(|byte| byte == 1).collect())
}
